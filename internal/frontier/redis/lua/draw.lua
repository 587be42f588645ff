-- draw has a process draw on what a job may have of something in all. It may be repeated.
-- KEYS are the job and what was drawn; ARGV the time, the job's id, the id of the process, the
-- number of the request, what is drawn on, how much of it there is in all unless the job says
-- otherwise (its term of that name; 0: there is no bound), how much is wanted, and how much of what
-- was drawn before is given back. What is drawn and not given back counts as used, whatever became
-- of the process. The reply: how much was granted, and how much is left.
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[2] then return redis.error_reply('NOJOB the job is gone') end
local last, request, what, plan = ARGV[5] .. '/' .. ARGV[3], ARGV[4], ARGV[5], tonumber(redis.call('HGET', KEYS[1], 'term:' .. ARGV[5]) or ARGV[6])
if not plan or plan == 0 then plan = 2 ^ 50 end
local before, got = string.match(redis.call('HGET', KEYS[2], last) or '', '^(%d+) (%d+)$')
local drawn = tonumber(redis.call('HGET', KEYS[2], what) or '0')
if before ~= request then
  drawn = drawn - tonumber(ARGV[8])
  got = math.max(0, math.min(tonumber(ARGV[7]), plan - drawn))
  drawn = drawn + got
  redis.call('HSET', KEYS[2], what, string.format('%d', drawn), last, request .. ' ' .. string.format('%d', got))
end
return { tonumber(got), math.max(0, plan - drawn) }
