-- job makes a job unless there is one. KEYS[1] is crawl:{job}:job; ARGV[1] the time (0: the
-- server's), [2] its id, [3] the key of its fingerprints, [4] its partitions, [5] the bound of
-- each host, and then its terms, each a name and a value. The reply is what there is then.
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if redis.call('HSETNX', KEYS[1], 'id', ARGV[2]) == 1 then
  redis.call('HSET', KEYS[1], 'key', ARGV[3], 'partitions', ARGV[4], 'max', ARGV[5], 'created', string.format('%d', now), 'control', 'running', 'counted', '1')
  for i = 6, #ARGV, 2 do redis.call('HSET', KEYS[1], 'term:' .. ARGV[i], ARGV[i + 1]) end
end
return redis.call('HGETALL', KEYS[1])
