-- seeds appends seeds to those of the job, KEYS[1]. ARGV is for each seed its URL and the number of redirects that led
-- to it. The lower eight bits of a seed's number are those redirects.
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
local n = math.floor(tonumber(last[2] or '0') / 256)
for i = 1, #ARGV, 2 do
  n = n + redis.call('ZADD', KEYS[1], 'NX', (n + 1) * 256 + tonumber(ARGV[i + 1]), ARGV[i])
end
return { n }
