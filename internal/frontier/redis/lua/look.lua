-- look counts the hosts of a partition: those that belong to nobody and may be asked, those that may not be yet, and
-- those that belong to a process.
local ready, owned = call('ZCOUNT', root .. 'ready', '-inf', now), 0
for _, session in ipairs(call('ZRANGE', root .. 'w', 0, -1)) do
  owned = owned + math.max(0, call('HLEN', root .. 'o:' .. session) - 1) -- one is the number of its last request
end
return { ready, call('ZCARD', root .. 'ready') - ready, owned }
