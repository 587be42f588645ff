-- hello notes that a process is there, or with no time to live that it has gone. KEYS are
-- the job, its workers, what they tell, the seeds, who of them has nothing to do, and what they
-- have drawn; ARGV the
-- time (0: the server's), the job's id, the id of the process, its time to live in milliseconds,
-- and what it tells. Then what it is at: w (it works), i (it has no URL), b (all its hosts
-- refuse) or x (operators have blocked them all); for how long; until when the first refuses;
-- 1 if hosts have ordered that; for how long they may; and why, for people. Spans are in
-- milliseconds. The reply: the fields of the job and their values, among them why it is at its end with only
-- blocked hosts left; the number of the last seed; what each other process that is there tells; and the time.
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[2] then return redis.error_reply('NOJOB the job is gone') end
-- What a process drew last is noted for it to ask again, and so for as long as it is there.
local function forget(id)
  redis.call('ZREM', KEYS[2], id)
  redis.call('HDEL', KEYS[3], id)
  redis.call('HDEL', KEYS[5], id)
  redis.call('HDEL', KEYS[6], 'max_pages/' .. id)
end
if tonumber(ARGV[4]) > 0 then
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[4]), ARGV[3])
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[5])
else
  forget(ARGV[3])
  -- The hosts that it had are there for others.
  redis.call('HSET', KEYS[1], 'parted', string.format('%d', now))
end
local job, idle, kind = KEYS[1], KEYS[5], ARGV[6]
if tonumber(ARGV[4]) > 0 and kind ~= 'w' then
  redis.call('HSET', idle, ARGV[3], string.format('%s %d %d %s %d %s', kind, now - tonumber(ARGV[7]), now + tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10]), ARGV[11]))
else
  redis.call('HDEL', idle, ARGV[3])
  if kind == 'w' and tonumber(ARGV[4]) > 0 then redis.call('HDEL', job, 'blocked') end
end
-- Who has not been heard of for an hour is forgotten.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - 3600000, 'LIMIT', 0, 100)) do
  forget(id)
end

-- blocked is why only blocked hosts remain; nothing if somebody works, or may come to. What
-- one process has left or told is heard by the others within a lease, and hosts that nobody
-- has are asked for every two seconds: so long all of them must have had nothing to do.
local function blocked()
  local since = tonumber(redis.call('HGET', job, 'parted') or '0')
  local patience, ordered, first, why, barred = 0, true, nil, nil, nil
  local all = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    local till = tonumber(all[i + 1])
    if till <= now then -- it has died, and its hosts come back
      since = math.max(since, till)
    else
      local line = redis.call('HGET', idle, all[i])
      if not line then return nil end
      local at, from, expiry, order, most, text = string.match(line, '^(%S) (%d+) (%d+) (%d) (%d+) (.*)$')
      since, patience = math.max(since, tonumber(from)), math.max(patience, tonumber(most))
      if at == 'x' then barred = text end
      if at == 'b' then
        ordered = ordered and order == '1'
        if not first or tonumber(expiry) < first then first, why = tonumber(expiry), text end
      end
    end
  end
  local long = first and ordered and first > since + patience
  if (first or barred) and now >= since + math.max(tonumber(ARGV[4]), 3000) and (long or now >= since + patience) then
    return why or barred
  end
end

local why = redis.call('HGET', job, 'blocked')
if not why and kind ~= 'w' and tonumber(ARGV[4]) > 0 then
  why = blocked()
  if why then redis.call('HSET', job, 'blocked', why) end
end
local last, others = redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES'), {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], string.format('(%d', now), '+inf')) do
  if id ~= ARGV[3] then others[#others + 1] = redis.call('HGET', KEYS[3], id) or '' end
end
return { redis.call('HGETALL', job), last[2] or '0', others, now }
