-- load hands out the next URLs of hosts to the session that has the hosts.
--
-- ARGV[3] is the session. For each host follow its name, its token, the most URLs, and the number of the request. A
-- repeated request gets the same URLs again. The reply: for each host how many URLs are left (-1: the token is stale)
-- and the items, each behind its rank; and the news.
local session, reply = ARGV[3], {}
for i = 4, #ARGV, 4 do
  local name, token, n, request = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  local h, x = root .. 'h:' .. name, root .. 'x:' .. name
  local f = call('HMGET', h, 't', 'o', 'r', 'lo', 'ls')
  local items = {}
  if f[1] ~= token or f[2] ~= session then
    reply[#reply + 1] = { -1, items }
  else
    local list = ranks(f[3])
    if f[4] == request then
      for seq in string.gmatch(f[5], '%d+') do
        local item = call('HGET', x, seq)
        if item then items[#items + 1] = item end
      end
    else
      local seqs, rest = {}, {}
      for _, rank in ipairs(list) do
        local q = queue(name, rank)
        if #items < n then
          for _, item in ipairs(call('LPOP', q, n - #items) or {}) do
            local seq = string.match(item, '^%d+')
            item = rank .. ' ' .. item
            call('HSET', x, seq, item)
            items[#items + 1], seqs[#seqs + 1] = item, seq
          end
        end
        if call('LLEN', q) > 0 then rest[#rest + 1] = rank end
      end
      list = rest
      call('HSET', h, 'r', table.concat(list, ','), 'lo', request, 'ls', table.concat(seqs, ' '))
    end
    reply[#reply + 1] = { queued(name, list), items }
  end
end
return { reply, news(session) }
