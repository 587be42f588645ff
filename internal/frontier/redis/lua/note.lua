-- note stores in a job what a process has found out. KEYS[1] is the job. ARGV[3] is 1 if a URL was visited, [4] the
-- reason why a URL could not be requested (empty: none), and [5] 1 if a host has answered. The first reason stays.
if gone('id') then return gone('id') end
if ARGV[3] == '1' then call('HSET', KEYS[1], 'visited', '1') end
if ARGV[4] ~= '' then call('HSETNX', KEYS[1], 'unruled', ARGV[4]) end
if ARGV[5] == '1' then call('HSET', KEYS[1], 'answered', '1') end
return {}
