-- All scripts but seeds begin with this. ARGV[1] is the time in milliseconds; 0 means the server's time, and only tests
-- give another. ARGV[2] is the ID of the job.
local call = redis.call
local now = tonumber(ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- int writes a number in digits; Lua writes a large one with an exponent.
local function int(n) return string.format('%d', n) end

-- gone returns the error for a job or partition that was deleted or belongs to another job.
local function gone(field)
  if call('HGET', KEYS[1], field) ~= ARGV[2] then return redis.error_reply('NOJOB it is gone') end
end
