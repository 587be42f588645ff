-- acquire gives hosts that are due to a session. First it returns hosts of a session that has ended.
--
-- ARGV[3] is the session, [4] its time to live, [5] the most hosts, [6] the number of the request, and [7] how many
-- hosts the process has. A repeated request gets the same hosts again. If the session gets none, other processes learn
-- from [7] whether to give some. The reply: the hosts, each with its token, its numbers of queued and known URLs, and
-- its host memory; the time until the next host is due or may return (-1: none waits); the number of other sessions;
-- and the time until the first host is due that no session has (-1: none waits).
local session, ttl, n, request, has = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local sessions, ready, own = root .. 'w', root .. 'ready', root .. 'o:' .. session

local ended = call('ZRANGEBYSCORE', sessions, '-inf', '(' .. int(now), 'WITHSCORES', 'LIMIT', 0, 1)
if ended[1] and ended[1] ~= session then
  giveAll(ended[1], 64, function(name)
    -- The process may have sent requests until its lease ended, at the remembered gap.
    local gap = select(6, words(call('HGET', root .. 'h:' .. name, 'm') or ''))
    give(name, tonumber(ended[2]) + tonumber(gap or '1000'))
    call('HINCRBY', counters, 'reclaimed', 1)
  end)
end

local granted = {}
local function tell(name, token)
  local f = call('HMGET', root .. 'h:' .. name, 'r', 'k', 'm')
  for _, v in ipairs({ name, token, queued(name, ranks(f[1])), tonumber(f[2] or '0'), recall(f[3]) }) do
    granted[#granted + 1] = v
  end
end

if call('HGET', own, '#') == request then
  local mine = call('HGETALL', own)
  for i = 1, #mine, 2 do
    local token, by = string.match(mine[i + 1], '^(%d+) (.*)$')
    if by == request then tell(mine[i], tonumber(token)) end
  end
else
  for _, name in ipairs(call('ZRANGEBYSCORE', ready, '-inf', now, 'LIMIT', 0, n)) do
    local token = call('HINCRBY', counters, 'tok', 1)
    call('ZREM', ready, name)
    call('HSET', root .. 'h:' .. name, 't', token, 'o', session)
    call('HDEL', root .. 'h:' .. name, 'nb')
    call('HSET', own, name, token .. ' ' .. request)
    tell(name, token)
  end
  if #granted > 0 then
    call('HSET', own, '#', request)
    call('ZADD', sessions, 'NX', now + ttl, session)
  end
end

local others = call('ZCARD', sessions) - (call('ZSCORE', sessions, session) and 1 or 0)
if #granted == 0 and others > 0 then
  -- A process that still wants hosts asks again within the span. Of several, the least number of hosts is stored. It
  -- is valid for one span; otherwise a number of the past would stay as long as anybody asks.
  local before, span = call('HMGET', counters, 'wants', 'poor'), math.min(ttl, 5000)
  local least, poor = tonumber(before[1] or has), tonumber(before[2] or '0')
  if poor > now and least < has then has = least else poor = now + span end
  call('HSET', counters, 'want', int(now + span), 'wants', has, 'poor', int(poor))
end
local first, wait = call('ZRANGE', ready, 0, 0, 'WITHSCORES'), -1
if first[2] then wait = math.max(0, tonumber(first[2]) - now) end
local due = wait
-- The hosts of a session return when it ends without having been renewed.
local ends = call('ZRANGE', sessions, 0, 1, 'WITHSCORES')
for i = 1, #ends, 2 do
  local left = tonumber(ends[i + 1]) - now + 1
  if ends[i] ~= session and left > 0 and (wait < 0 or left < wait) then wait = left end
end
return { granted, wait, others, due }
