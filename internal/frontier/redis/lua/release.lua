-- release gives hosts back. It may be repeated.
--
-- ARGV[3] is the session, and [4] whether it ends: then all that it has is given back, up to
-- 256 hosts at a time. Then for each host its name, its token, for how many milliseconds it
-- is not to be asked, and what was learned. The reply: how many hosts were given back, and
-- how many the session has still.
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
  local left = call('HKEYS', own)
  for i = 1, math.min(#left, 256) do
    if left[i] ~= '#' then
      give(left[i], now)
      given = given + 1
    end
    call('HDEL', own, left[i])
  end
  if #left <= 256 then
    call('ZREM', root .. 'w', session)
    call('DEL', root .. 'i:' .. session)
  end
end
return { given, call('HLEN', own) }
