-- add queues URLs that no process has added before. It may be repeated: it skips known URLs.
--
-- ARGV[3] is the session of the process that adds, [4] the process, and [5] the number of its call. For each URL follow
-- its host, its fingerprint (decimal, 63 bits), its rank, its budget and its item. A budget is its number and the bound
-- of the host's URLs in it; a bound of zero means that the URL counts but is not bounded, and an empty text that the URL
-- has no budget. The reply: how many URLs were new; the positions of those that a bound of their host has refused; the
-- hosts of the session that got URLs, each with their number; whether a host is ready that was not; and the number of
-- the process's last call, which is lower than the process knows if the server has lost that call.
local session, mark = ARGV[3], root .. 'a:' .. ARGV[4]
local before = tonumber(call('GET', mark) or '0')
local c = call('HMGET', counters, 'seq', 'count', 'level', 'split', 'max')
local seq, count, level, split, max = tonumber(c[1]), tonumber(c[2]), tonumber(c[3]), tonumber(c[4]), tonumber(c[5])

-- low returns a fingerprint modulo 2^bits, for at most 22 bits. A double cannot hold the whole fingerprint.
local function low(fp, bits)
  local m, cut = 2 ^ bits, #fp - 9
  if cut <= 0 then return tonumber(fp) % m end
  return (tonumber(string.sub(fp, 1, cut)) % m * 1000000000 + tonumber(string.sub(fp, cut + 1))) % m
end

local function bucket(i) return root .. 's:' .. int(i) end

local function bucketOf(fp)
  local i = low(fp, level)
  if i < split then i = low(fp, level + 1) end
  return bucket(i)
end

-- grow does one step of linear hashing (Litwin, 1980): it splits the next bucket. So buckets hold 208 to 416
-- fingerprints, and hardly ever 512; beyond 512 the server would store them in seven times the memory.
local function grow()
  if count <= 208 * (2 ^ level + split) or level >= 21 then return end
  local from, to = bucket(split), bucket(split + 2 ^ level)
  local moved = {}
  for _, fp in ipairs(call('SMEMBERS', from)) do
    if low(fp, level + 1) ~= split then moved[#moved + 1] = fp end
  end
  for i = 1, #moved, 4000 do
    call('SREM', from, unpack(moved, i, math.min(i + 3999, #moved)))
    call('SADD', to, unpack(moved, i, math.min(i + 3999, #moved)))
  end
  split = split + 1
  if split == 2 ^ level then level, split = level + 1, 0 end
end

local hosts, order = {}, {}
local function find(name)
  local s = hosts[name]
  if not s then
    local f = call('HMGET', root .. 'h:' .. name, 'o', 'r', 'k', 'nb', 'p')
    s = { owner = f[1], ranks = ranks(f[2]), known = tonumber(f[3] or '0'), before = tonumber(f[4] or '0'), pages = tonumber(f[5] or '0'), added = 0, changed = false, budgets = {} }
    hosts[name], order[#order + 1] = s, name
  end
  return s
end

local added, refused, isReady = 0, {}, 0
local function offer(i, name, fp, rank, limit, item)
  local s, b = find(name), bucketOf(fp)
  local budget, most = string.match(limit, '^(%d+):(%d+)$')
  local page, spent = max > 0 and isPage(item), false
  if budget then
    budget = 'b' .. budget
    if not s.budgets[budget] then s.budgets[budget] = tonumber(call('HGET', root .. 'h:' .. name, budget) or '0') end
    spent = tonumber(most) > 0 and s.budgets[budget] >= tonumber(most)
  end
  if (spent or page and s.pages >= max) and call('SISMEMBER', b, fp) == 0 then
    refused[#refused + 1] = (i - 6) / 5
  elseif call('SADD', b, fp) == 1 then
    count, seq, added = count + 1, seq + 1, added + 1
    local used, changed = place(s.ranks, rank)
    call('RPUSH', queue(name, used), int(seq) .. ' ' .. item)
    if budget then
      s.budgets[budget] = s.budgets[budget] + 1
      call('HSET', root .. 'h:' .. name, budget, s.budgets[budget])
      if s.budgets[budget] == 1 then call('HSET', counters, 'counts', 1) end
    end
    s.added, s.known, s.changed = s.added + 1, s.known + 1, s.changed or changed
    if page then s.pages = s.pages + 1 end
    grow()
  end
end

for i = 6, #ARGV, 5 do
  offer(i, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end

local grown = {}
for _, name in ipairs(order) do
  local s, h = hosts[name], root .. 'h:' .. name
  if s.added > 0 then
    call('HSET', h, 'k', s.known)
    if max > 0 then call('HSET', h, 'p', s.pages) end
    call('PERSIST', h)
    if s.changed then call('HSET', h, 'r', table.concat(s.ranks, ',')) end
    if not s.owner then
      local at = math.max(now, s.before)
      if call('ZADD', root .. 'ready', 'NX', at, name) == 1 and at <= now then isReady = 1 end
    elseif s.owner == session then
      grown[#grown + 1], grown[#grown + 2] = name, s.added
    else
      call('SADD', root .. 'i:' .. s.owner, name)
    end
  end
end
if added > 0 then
  call('HSET', counters, 'seq', int(seq), 'count', int(count), 'level', level, 'split', split)
  call('HINCRBY', counters, 'added', added)
end
if #refused > 0 then call('HINCRBY', counters, 'refused', #refused) end
call('SET', mark, int(math.max(before, tonumber(ARGV[5]))), 'PX', day)
return { added, refused, grown, isReady, before }
