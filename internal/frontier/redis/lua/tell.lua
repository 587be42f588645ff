-- tell tells how a job stands. KEYS are the job, its workers, what they tell, the seeds and what was drawn; ARGV the
-- time (0: the server's) and the job's id. The reply: the time, the workers and until when they are there, what each of
-- them tells, how many seeds there are, and how many pages were drawn.
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[2] then return redis.error_reply('NOJOB the job is gone') end
local workers, infos = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'), {}
for i = 1, #workers, 2 do infos[#infos + 1] = redis.call('HGET', KEYS[3], workers[i]) or '' end
return { now, workers, infos, redis.call('ZCARD', KEYS[4]), redis.call('HGET', KEYS[5], 'max_pages') or '0' }
