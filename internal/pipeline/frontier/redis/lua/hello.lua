-- hello notes that a process is there, or with no time to live that it has gone. KEYS are
-- the job, its workers and what they tell; ARGV the time (0: the server's), the job's id, the
-- id of the process, its time to live in milliseconds, and what it tells. The reply: the job's control, and
-- the number of the last seed.
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[2] then return redis.error_reply('NOJOB the job is gone') end
if tonumber(ARGV[4]) > 0 then
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[4]), ARGV[3])
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[5])
else
  redis.call('ZREM', KEYS[2], ARGV[3])
  redis.call('HDEL', KEYS[3], ARGV[3])
end
-- Who has not been heard of for an hour is forgotten.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - 3600000, 'LIMIT', 0, 100)) do
  redis.call('ZREM', KEYS[2], id)
  redis.call('HDEL', KEYS[3], id)
end
local last = redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')
return { redis.call('HGET', KEYS[1], 'control') or 'running', last[2] or '0' }
