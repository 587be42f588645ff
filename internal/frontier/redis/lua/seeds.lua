-- seeds adds seeds to those of the job, KEYS[1], in their order. ARGV are for each its URL and
-- how many redirects led to it, which is kept in the lower eight bits of its number.
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
local n = math.floor(tonumber(last[2] or '0') / 256)
for i = 1, #ARGV, 2 do
  n = n + redis.call('ZADD', KEYS[1], 'NX', (n + 1) * 256 + tonumber(ARGV[i + 1]), ARGV[i])
end
return { n }
