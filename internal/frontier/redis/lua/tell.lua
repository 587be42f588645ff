-- tell reads the state of a job. KEYS are the job, its processes, their reports, the seeds and what was drawn. The
-- reply: the time, the processes and when their leases end, their reports, the number of seeds, and the number of drawn
-- pages.
if gone('id') then return gone('id') end
local workers, infos = call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'), {}
for i = 1, #workers, 2 do infos[#infos + 1] = call('HGET', KEYS[3], workers[i]) or '' end
return { now, workers, infos, call('ZCARD', KEYS[4]), call('HGET', KEYS[5], 'max_pages') or '0' }
