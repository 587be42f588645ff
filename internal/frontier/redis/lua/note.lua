-- note notes of a job whether a URL was visited, why one could not be asked for, and whether a host has
-- answered. KEYS[1] is the job; ARGV the time, the job's id, 1 if one was visited, the reason (empty:
-- there is none), and 1 if a host has answered. The first reason stays.
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[2] then return redis.error_reply('NOJOB the job is gone') end
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'visited', '1') end
if ARGV[4] ~= '' then redis.call('HSETNX', KEYS[1], 'unruled', ARGV[4]) end
if ARGV[5] == '1' then redis.call('HSET', KEYS[1], 'answered', '1') end
return {}
