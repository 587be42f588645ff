-- job makes a job unless it exists. KEYS[1] is crawl:{job}:job. ARGV[2] is the ID of a new job, [3] the key of its
-- fingerprints, [4] its number of partitions, and [5] the page bound of its hosts; then follow the names and values of
-- its terms. The reply: the fields of the job and their values.
if call('HSETNX', KEYS[1], 'id', ARGV[2]) == 1 then
  call('HSET', KEYS[1], 'key', ARGV[3], 'partitions', ARGV[4], 'max', ARGV[5], 'created', int(now), 'control', 'running', 'counted', '1')
  for i = 6, #ARGV, 2 do call('HSET', KEYS[1], 'term:' .. ARGV[i], ARGV[i + 1]) end
end
return call('HGETALL', KEYS[1])
