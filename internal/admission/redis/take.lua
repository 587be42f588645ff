-- One decision over the plans whose keys are KEYS, all of one slot. It repeats the pure
-- functions of package admission with the same operations on doubles in the same order;
-- whatever is only told and not stored is left to them. All plans are read before any
-- is written, and a denial writes nothing.
--
-- ARGV[1] is binary, big-endian: the time in microseconds (8-byte integer; below 0 for
-- the server's), the tokens that are needed and how many at most are taken if there
-- are more (doubles), and for each plan its kind (0 bucket, 1 fixed, 2 sliding window), its
-- capacity, its tokens per second or its length in microseconds, and its time to live
-- in milliseconds (a byte, three doubles).
--
-- The reply is binary too: the time (8-byte integer), the tokens taken (double; below 0 if
-- denied), and for each plan what was stored before: a zero byte for nothing, or a one
-- byte and the fields ts and t of a bucket, ts, c and p of a window.
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local arg = ARGV[1]
local now, least, most, pos = unpack('>i8dd', arg)
if now < 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end

-- What no plan can have written is of a damaged store, and counts as nothing: 2^53 is the
-- end of the whole numbers of a double, 2^40 of those of a plan.
local function whole(s, limit)
  if not s or #s ~= 8 then return nil end
  local n = unpack('>i8', s)
  if n < 0 or n > limit then return nil end
  return n
end

local function bucket(p, key)
  local f = call('HMGET', key, 'v', 'ts', 't')
  local at, stored = whole(f[2], 9007199254740992), f[3]
  p.used = f[1] or f[2] or stored
  if f[1] ~= '1' or not at or not stored or #stored ~= 8 then
    p.at, p.have = now, p.cap
    return
  end
  p.told = f[2] .. stored
  local have = unpack('>d', stored)
  local gain = (now - at) * p.pace / 1000000
  if gain < 0 then
    if gain < -p.cap then -- from a clock that was wrong
      p.at, p.have = now, p.cap
      return
    end
    p.at, gain = at, 0
  else
    p.at = now
  end
  have = have + gain
  if not (have <= p.cap) then have = p.cap end -- true of no number too
  p.have = have
end

local function window(p, key)
  local f = call('HMGET', key, 'v', 'ts', 'c', 'p')
  local at, c, b = whole(f[2], 9007199254740992), whole(f[3], 1099511627776), whole(f[4], 1099511627776)
  p.used = f[1] or f[2] or f[3] or f[4]
  local start = now - math.fmod(now, p.pace)
  p.at, p.have, p.before = start, 0, 0
  if f[1] ~= '1' or not at or not c or not b then return end
  p.told = f[2] .. f[3] .. f[4]
  local passed = start - at
  if now < at - p.pace then return end -- from a clock that was wrong
  if passed <= 0 then
    p.at, p.have, p.before = at, c, b
  elseif passed <= p.pace and p.kind == 2 then
    p.before = c
  end
end

local function fits(p, n)
  if p.kind == 0 then return n <= p.have end
  if n > p.cap then return false end
  if n == 0 then return true end
  local elapsed, room = math.max(0, now - p.at), p.cap - p.have - (n - 1)
  return p.before * (p.pace - elapsed - 1) < room * p.pace
end

-- Whole tokens that are there. Rounding may make it one too many.
local function left(p)
  if p.kind == 0 then return math.floor(p.have) end
  local fading = math.floor(p.before * (p.pace - math.max(0, now - p.at) - 1) / p.pace)
  return p.cap - p.have - fading
end

local plans, reply, taken = {}, {}, most
for i = 1, #KEYS do
  local p = {}
  p.kind, p.cap, p.pace, p.ttl, pos = unpack('>Bddd', arg, pos)
  if p.kind == 0 then bucket(p, KEYS[i]) else window(p, KEYS[i]) end
  if taken > least then taken = math.max(least, math.min(taken, left(p))) end
  plans[i], reply[i + 1] = p, p.told and '\1' .. p.told or '\0'
end
for i = 1, #plans do
  if not fits(plans[i], taken) then taken = least end
end
for i = 1, #plans do
  if not fits(plans[i], taken) then taken = -1 end
end
reply[1] = pack('>i8d', now, taken)

if taken > 0 then
  for i = 1, #KEYS do
    local p, key = plans[i], KEYS[i]
    if not p.told then
      if p.used then call('DEL', key) end -- of another kind or version
      call('HSET', key, 'v', '1')
    end
    local ts = pack('>i8', p.at)
    if p.kind == 0 then
      call('HSET', key, 'ts', ts, 't', pack('>d', p.have - taken))
    else
      call('HSET', key, 'ts', ts, 'c', pack('>i8', p.have + taken), 'p', pack('>i8', p.before))
    end
    -- A clock that went back has to catch up first; only then does the time to live begin.
    call('PEXPIRE', key, p.ttl + math.ceil(math.max(0, p.at - now) / 1000))
  end
end
return table.concat(reply)
