-- acquire gives hosts that are due to a session, after it has taken back those of a session
-- that has ended without giving them back.
--
-- ARGV[3] is the session, [4] its time to live, [5] how many hosts at most, [6] the number of
-- the request, by which a repeated one gets what the first got, and [7] how many hosts the process
-- has in all, for others to know whether to give some if it gets none. The reply: the hosts, each with its token, URLs
-- queued and known, and what is remembered; how long until the next is due, or may come back (-1: none
-- waits); the sessions there are; and how long until the first is due that nobody has (-1: none waits).
local session, ttl, n, request, has = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local sessions, ready, own = root .. 'w', root .. 'ready', root .. 'o:' .. session

local ended = call('ZRANGEBYSCORE', sessions, '-inf', '(' .. string.format('%d', now), 'WITHSCORES', 'LIMIT', 0, 1)
if ended[1] and ended[1] ~= session then
  local theirs, expiry = root .. 'o:' .. ended[1], tonumber(ended[2])
  local left = call('HKEYS', theirs)
  for i = 1, math.min(#left, 64) do
    if left[i] ~= '#' then
      -- It may have been asked until its lease ended, and at what pace is remembered.
      local gap = select(6, words(call('HGET', root .. 'h:' .. left[i], 'm') or ''))
      give(left[i], expiry + tonumber(gap or '1000'))
      call('HINCRBY', counters, 'reclaimed', 1)
    end
    call('HDEL', theirs, left[i])
  end
  if #left <= 64 then
    call('ZREM', sessions, ended[1])
    call('DEL', root .. 'i:' .. ended[1])
  end
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
  -- Who still wants some asks again by then. Of several it is told what the poorest has, for as long
  -- after it has said so: or what one had at first would be told of it as long as anybody asks.
  local before, span = call('HMGET', counters, 'wants', 'poor'), math.min(ttl, 5000)
  local least, poor = tonumber(before[1] or has), tonumber(before[2] or '0')
  if poor > now and least < has then has = least else poor = now + span end
  call('HSET', counters, 'want', string.format('%d', now + span), 'wants', has, 'poor', string.format('%d', poor))
end
local first, wait = call('ZRANGE', ready, 0, 0, 'WITHSCORES'), -1
if first[2] then wait = math.max(0, tonumber(first[2]) - now) end
local due = wait
-- The hosts of a session that ends come back then, if nobody renews it.
local ends = call('ZRANGE', sessions, 0, 1, 'WITHSCORES')
for i = 1, #ends, 2 do
  local left = tonumber(ends[i + 1]) - now + 1
  if ends[i] ~= session and left > 0 and (wait < 0 or left < wait) then wait = left end
end
return { granted, wait, others, due }
