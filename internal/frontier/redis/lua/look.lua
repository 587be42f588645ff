-- look counts the hosts of a partition: those of no session that are due, those of no session that are not due, and
-- those that a session has.
local ready, owned = call('ZCOUNT', root .. 'ready', '-inf', now), 0
for _, session in ipairs(call('ZRANGE', root .. 'w', 0, -1)) do
  owned = owned + math.max(0, call('HLEN', root .. 'o:' .. session) - 1) -- one field is the number of its last request
end
return { ready, call('ZCARD', root .. 'ready') - ready, owned }
