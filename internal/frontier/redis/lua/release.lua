-- release gives hosts back. It may be repeated.
--
-- ARGV[3] is the session, and [4] is 1 if the session ends: then all its hosts are given back, at most 256 per call. For
-- each host follow its name, its token, for how many milliseconds it must not be acquired, and its host memory. The
-- reply: how many hosts were given back, and how many the session still has.
local session, ends = ARGV[3], ARGV[4]
local own, given = root .. 'o:' .. session, 0
for i = 5, #ARGV, 4 do
  local name, token, wait, memory = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  local h = root .. 'h:' .. name
  local f = call('HMGET', h, 't', 'o')
  if f[1] == token and f[2] == session then
    remember(h, memory)
    give(name, now + wait)
    call('HDEL', own, name)
    given = given + 1
  end
end
if given > 0 then call('HDEL', counters, 'want', 'wants') end
if ends == '1' then
  giveAll(session, 256, function(name)
    give(name, now)
    given = given + 1
  end)
end
return { given, call('HLEN', own) }
