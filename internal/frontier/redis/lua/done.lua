-- done takes in what became of URLs that were handed out, and what was learned of hosts. It
-- may be repeated.
--
-- ARGV[3] is the session; then for each what (d: is done, r: is done and was not to be fetched,
-- s: has spent a try, m: was learned), its host, the token, the number of the URL in the
-- partition, and the item or what was learned. The reply: how many were done, the hosts whose token is stale, and the
-- news.
local session, valid, stale, done = ARGV[3], {}, {}, 0
for i = 4, #ARGV, 5 do
  local what, name, token, seq, text = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local id = token .. ' ' .. name
  local h, x = root .. 'h:' .. name, root .. 'x:' .. name
  if valid[id] == nil then
    local f = call('HMGET', h, 't', 'o')
    valid[id] = f[1] == token and f[2] == session
    if not valid[id] then stale[#stale + 1] = name end
  end
  if valid[id] then
    if what == 'd' then
      done = done + call('HDEL', x, seq)
    elseif what == 'r' then
      local item = call('HGET', x, seq)
      done = done + call('HDEL', x, seq)
      -- The host has room for another page, if there is a bound: else nothing is counted.
      if item and isPage(string.match(item, '^%S+ %S+ (.*)$')) and tonumber(call('HGET', h, 'p') or '0') > 0 then
        call('HINCRBY', h, 'p', -1)
      end
    elseif what == 's' then
      local item = call('HGET', x, seq)
      if item then call('HSET', x, seq, string.match(item, '^%S+ ') .. seq .. ' ' .. text) end
    else
      remember(h, text)
    end
  end
end
if done > 0 then call('HINCRBY', counters, 'done', done) end
return { done, stale, news(session) }
