-- slots divides what the processes of a job may have out at a time. KEYS are the job and the
-- shares; ARGV the time (0: the server's), the job's id, the id of the process, how long its share
-- lasts in milliseconds, what all may have out together, what it has out, and what it could
-- use. The reply: its share. The shares that have not ended never add up to more than the plan.
--
-- Each that can use so much is kept an equal part; who has more lets go of it when it asks
-- the next time, but for what is out, and what nobody else can use goes to whoever asks.
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[2] then return redis.error_reply('NOJOB the job is gone') end
local me, ttl, plan, out, want = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local all, others, n = redis.call('HGETALL', KEYS[2]), {}, 1
for i = 1, #all, 2 do
  local share, till, wants = string.match(all[i + 1], '^(%d+) (%d+) (%d+)$')
  if all[i] ~= me then
    if tonumber(till) <= now then
      redis.call('HDEL', KEYS[2], all[i])
    else
      n = n + 1
      others[#others + 1] = { tonumber(share), tonumber(wants) }
    end
  end
end
if want == 0 and out == 0 then
  redis.call('HDEL', KEYS[2], me)
  return { 0 }
end
local part, taken, kept = math.floor(plan / n), 0, 0
for _, o in ipairs(others) do
  taken = taken + o[1]
  kept = kept + math.max(o[1], math.min(o[2], part))
end
local share = math.max(out, math.min(want, math.max(part, plan - kept)))
share = math.max(0, math.min(share, plan - taken))
redis.call('HSET', KEYS[2], me, string.format('%d %d %d', share, now + ttl, want))
return { share }
