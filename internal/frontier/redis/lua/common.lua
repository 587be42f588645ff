-- The scripts of a partition continue with this. KEYS[1] is the hash of the partition's counters, `crawl:{job/p}:n`.
-- All other keys of the partition have the same beginning, and so are in the same slot.
local counters = KEYS[1]
local root = string.sub(counters, 1, -2)
if gone('v') then return gone('v') end

-- day is how long the host memory and the number of known URLs of a host without queued URLs are kept.
local day = 86400000

-- ranks reads the ranks of a host's queues that are not empty, in ascending order.
local function ranks(text)
  local list = {}
  for rank in string.gmatch(text or '', '[^,]+') do list[#list + 1] = rank end
  return list
end

local function queue(host, rank) return root .. 'q:' .. host .. ':' .. rank end

local function queued(host, list)
  local n = 0
  for i = 1, #list do n = n + call('LLEN', queue(host, list[i])) end
  return n
end

-- place inserts a rank into the list. It returns the rank whose queue takes the URL, and whether the list has changed.
-- A list of 64 ranks grows no more: the next higher rank of the list, or else its last, stands for the new one.
local function place(list, rank)
  local value, i = tonumber(rank), 1
  while i <= #list and tonumber(list[i]) < value do i = i + 1 end
  if list[i] and tonumber(list[i]) == value then return list[i], false end
  if #list >= 64 then return list[i] or list[#list], false end
  table.insert(list, i, rank)
  return rank, true
end

-- isPage reports whether an item is a page. Only pages count for the bound of a host. Two bits of the second byte are
-- the kind of the item; zero is a page.
local function isPage(item) return math.floor(string.byte(item, 2) / 4) % 4 == 0 end

-- words splits a host memory: rate and pause, in the limiter's own form; when the host was requested last; until when
-- it must not be requested, by Retry-After and by a pause; and the gap between two requests.
local function words(text)
  return string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
end

-- remember stores the host memory of the holder, whose times are milliseconds from now. It never shortens a stored
-- Retry-After, because the new holder may not know it.
local function remember(h, text)
  if text == '' then return end
  local rate, pause, used, retry, held, gap = words(text)
  local old = call('HGET', h, 'm')
  local till = tonumber(retry) > 0 and now + tonumber(retry) or 0
  if old then till = math.max(till, tonumber((select(4, words(old))))) end
  local hold = tonumber(held) > 0 and now + tonumber(held) or 0
  call('HSET', h, 'm', table.concat({ rate, pause, int(now - tonumber(used)), int(till), int(hold), gap }, ' '))
end

-- recall returns the stored host memory, its times as milliseconds from now.
local function recall(text)
  if not text then return '' end
  local rate, pause, used, retry, held = words(text)
  local function left(at, least)
    if tonumber(at) == 0 then return '0' end
    return int(math.max(least, tonumber(at) - now))
  end
  -- A pause that is over is 1: the next request is a trial.
  return table.concat({ rate, pause, int(math.max(0, now - tonumber(used))), left(retry, 0), left(held, 1) }, ' ')
end

-- give returns a host, not to be acquired before an instant. The URLs that were handed out go to the front of its
-- queues. A host without URLs is idle.
local function give(host, notBefore)
  local h, x = root .. 'h:' .. host, root .. 'x:' .. host
  local f = call('HMGET', h, 'r', 'm')
  local list, out = ranks(f[1]), call('HGETALL', x)
  local seqs, items = {}, {}
  for i = 1, #out, 2 do
    seqs[#seqs + 1], items[out[i]] = tonumber(out[i]), out[i + 1]
  end
  table.sort(seqs, function(a, b) return a > b end)
  for i = 1, #seqs do
    local rank, item = string.match(items[int(seqs[i])], '^(%S+) (.*)$')
    call('LPUSH', queue(host, (place(list, rank))), item)
  end
  call('DEL', x)
  call('HDEL', h, 't', 'o', 'lo', 'ls')
  if f[2] then
    local _, _, used, retry, held, gap = words(f[2])
    notBefore = math.max(notBefore, tonumber(used) + tonumber(gap), tonumber(retry), tonumber(held))
  end
  notBefore = math.ceil(math.max(now, notBefore))
  if queued(host, list) > 0 then
    call('HSET', h, 'r', table.concat(list, ','))
    call('ZADD', root .. 'ready', notBefore, host)
    return
  end
  call('HSET', h, 'r', '', 'nb', int(notBefore))
  local bounds = call('HMGET', counters, 'max', 'counts') -- a count that a bound needs is kept
  if bounds[1] == '0' and not bounds[2] then call('PEXPIRE', h, day + notBefore - now) end
end

-- giveAll gives back the first hosts of a session, at most `most`, by each(host). When none is left, the session ends.
local function giveAll(session, most, each)
  local own = root .. 'o:' .. session
  local left = call('HKEYS', own)
  for i = 1, math.min(#left, most) do
    if left[i] ~= '#' then each(left[i]) end
    call('HDEL', own, left[i])
  end
  if #left <= most then
    call('ZREM', root .. 'w', session)
    call('DEL', root .. 'i:' .. session)
  end
end

-- news returns what a session learns with every reply: 0, or if other processes want hosts, one more than the least
-- number of hosts that such a process has; and the hosts of the session that got URLs from other processes.
local function news(session)
  local want = call('HMGET', counters, 'want', 'wants')
  local wanted = tonumber(want[1] or '0') > now
  return { wanted and 1 + tonumber(want[2] or '0') or 0, call('SPOP', root .. 'i:' .. session, 256) }
end
