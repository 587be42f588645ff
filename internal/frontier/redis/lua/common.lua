-- What all scripts begin with. KEYS[1] is the counters of the partition, `crawl:{job/p}:n`;
-- all other keys have what stands before the n in common with it, and so its slot.
--
-- ARGV[1] is the time in milliseconds, 0 for the server's: only tests have another.
-- ARGV[2] is the id of the job: counters that are gone, or of another, are an error.
local call = redis.call
local counters = KEYS[1]
local root = string.sub(counters, 1, -2)
local now = tonumber(ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if call('HGET', counters, 'v') ~= ARGV[2] then
  return redis.error_reply('NOJOB the partition is gone')
end

-- What is learned of a host is believed for a day, and so is how many URLs of it are known.
local day = 86400000

-- ranks are the numbers of a host's queues that are not empty, the first to go first.
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

-- place adds a rank to the list, in order. Of more than 64 the last stands for all behind it:
-- they are visited in the order in which they were found.
local function place(list, rank)
  local value = tonumber(rank)
  for i = 1, #list do
    local here = tonumber(list[i])
    if here == value then return list[i], false end
    if here > value then
      if #list >= 64 then return list[i], false end
      table.insert(list, i, rank)
      return rank, true
    end
  end
  if #list >= 64 then return list[#list], false end
  list[#list + 1] = rank
  return rank, true
end

-- isPage reports whether an item is a page, as what is none does not count for the bound of a
-- host: its kind is in two bits of its second byte, and zero is a page.
local function isPage(item) return math.floor(string.byte(item, 2) / 4) % 4 == 0 end

-- What is remembered of a host are six words: the rate and the pause, which are the limiters'
-- own, when it was last asked, until when it must not be, by a Retry-After and by a hold, and
-- the gap between two requests.
local function words(text)
  return string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
end

-- remember stores what the limiter of a holder knows, its times given in milliseconds from
-- now. An order to wait is never shortened by one who knows less.
local function remember(h, text)
  if text == '' then return end
  local rate, pause, used, retry, held, gap = words(text)
  local old = call('HGET', h, 'm')
  local till = tonumber(retry) > 0 and now + tonumber(retry) or 0
  if old then till = math.max(till, tonumber((select(4, words(old))))) end
  local hold = tonumber(held) > 0 and now + tonumber(held) or 0
  call('HSET', h, 'm', table.concat({ rate, pause, string.format('%d', now - tonumber(used)), string.format('%d', till), string.format('%d', hold), gap }, ' '))
end

-- recall is what remember stored, in milliseconds from now.
local function recall(text)
  if not text then return '' end
  local rate, pause, used, retry, held = words(text)
  -- A hold that is over still says that the next request is a trial.
  local function left(at, least)
    if tonumber(at) == 0 then return '0' end
    return string.format('%d', math.max(least, tonumber(at) - now))
  end
  return table.concat({ rate, pause, string.format('%d', math.max(0, now - tonumber(used))), left(retry, 0), left(held, 1) }, ' ')
end

-- obliged is the first instant at which the host may be asked by the next holder, as far as
-- the one before has told.
local function obliged(text, at)
  if not text then return at end
  local _, _, used, retry, held, gap = words(text)
  return math.max(at, tonumber(used) + tonumber(gap), tonumber(retry), tonumber(held))
end

-- give returns a host to those that wait, not before an instant, with the URLs that were
-- handed out in front of its others. One without any is idle.
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
    local seq = string.format('%d', seqs[i])
    local rank, item = string.match(items[seq], '^(%S+) (.*)$')
    call('LPUSH', queue(host, (place(list, rank))), item)
  end
  call('DEL', x)
  call('HDEL', h, 't', 'o', 'lo', 'ls')
  notBefore = math.ceil(math.max(now, obliged(f[2], notBefore)))
  if queued(host, list) > 0 then
    call('HSET', h, 'r', table.concat(list, ','))
    call('ZADD', root .. 'ready', notBefore, host)
    return
  end
  call('HSET', h, 'r', '', 'nb', string.format('%d', notBefore))
  local bounds = call('HMGET', counters, 'max', 'counts') -- what counts for a bound is kept
  if bounds[1] == '0' and not bounds[2] then call('PEXPIRE', h, day + notBefore - now) end
end

-- news are what a session is told with every reply: whether others want hosts of it (0: no; else
-- how many whoever has fewest of them has, and one), and which of its hosts have got URLs from others.
local function news(session)
  local inbox, want = root .. 'i:' .. session, call('HMGET', counters, 'want', 'wants')
  local wanted = tonumber(want[1] or '0') > now
  return { wanted and 1 + tonumber(want[2] or '0') or 0, call('SPOP', inbox, 256) }
end
