-- done stores the outcomes of URLs that were handed out, and host memories. It may be repeated.
--
-- ARGV[3] is the session. For each outcome follow its kind (d: the URL is done; r: the URL is done, and was refused;
-- s: the URL has spent a try; m: a host memory), its host, the host's token, the number of the URL in the partition, and
-- the item or the host memory. The reply: how many URLs are done now, the hosts whose token is stale, and the news.
local session, valid, stale, done = ARGV[3], {}, {}, 0
for i = 4, #ARGV, 5 do
  local kind, name, token, seq, text = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local id = token .. ' ' .. name
  local h, x = root .. 'h:' .. name, root .. 'x:' .. name
  if valid[id] == nil then
    local f = call('HMGET', h, 't', 'o')
    valid[id] = f[1] == token and f[2] == session
    if not valid[id] then stale[#stale + 1] = name end
  end
  local item = valid[id] and (kind == 'r' or kind == 's') and call('HGET', x, seq)
  if item and kind == 's' then
    call('HSET', x, seq, string.match(item, '^%S+ ') .. seq .. ' ' .. text)
  elseif valid[id] and kind == 'm' then
    remember(h, text)
  elseif valid[id] and kind ~= 's' then
    done = done + call('HDEL', x, seq)
    -- A refused page does not count for the bound of its host. Without a bound nothing is counted.
    if item and isPage(string.match(item, '^%S+ %S+ (.*)$')) and tonumber(call('HGET', h, 'p') or '0') > 0 then
      call('HINCRBY', h, 'p', -1)
    end
  end
end
if done > 0 then call('HINCRBY', counters, 'done', done) end
return { done, stale, news(session) }
