-- slots divides what the processes of a job may have out at a time. KEYS are the job and the
-- shares; ARGV the time (0: the server's), the job's id, the id of the process, how long its share
-- lasts in milliseconds, what all may have out together, what it may have out as long as it
-- has not heard the reply (its share, or what is out if that is more), and what it could use. The
-- reply: its share from then on.
--
-- What is booked of a process is never less than what it may have out: while its share shrinks
-- that is what it had, until it asks again and so has heard of it. What is booked of those whose
-- time has not ended never adds up to more than the plan.
--
-- Each that can use so much is kept an equal part, and what nobody else can use goes to whoever
-- asks. If there is less than one for each they take turns: who has had one for a while lets go
-- of it, and what is free is for those who have waited longest.
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[2] then return redis.error_reply('NOJOB the job is gone') end
local me, ttl, plan, held, want = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local turn, patience = 2000, 3000 -- milliseconds: of a turn, and for which one who waits is heard of

-- Of each: what is booked, until when, what it could use, its share, and since when it has one
-- or none.
local all, others, mine = redis.call('HGETALL', KEYS[2]), {}, nil
for i = 1, #all, 2 do
  local booked, till, wants, share, since = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  local o = booked and { id = all[i], booked = tonumber(booked), wants = tonumber(wants), share = tonumber(share), since = tonumber(since) }
  if not o or tonumber(till) <= now then
    redis.call('HDEL', KEYS[2], all[i])
  elseif o.id == me then
    mine = o
  else
    others[#others + 1] = o
  end
end
if want == 0 and held == 0 then
  redis.call('HDEL', KEYS[2], me)
  return { 0 }
end

local n, taken = math.min(want, 1), 0
for _, o in ipairs(others) do
  n, taken = n + math.min(o.wants, 1), taken + o.booked
end
local share = 0
if n <= plan and n > 0 then
  local part, kept = math.floor(plan / n), 0
  for _, o in ipairs(others) do kept = kept + math.max(o.booked, math.min(o.wants, part)) end
  share = math.min(want, math.max(part, plan - kept))
elseif mine and mine.share > 0 then
  if now - mine.since < turn then share = math.min(want, 1) end
else
  local since, before = mine and mine.since or now, 0
  for _, o in ipairs(others) do
    if o.booked == 0 and o.wants > 0 and (o.since < since or o.since == since and o.id < me) then before = before + 1 end
  end
  if plan - taken > before then share = math.min(want, 1) end
end
share = math.max(0, math.min(share, plan - taken))
local booked = math.max(share, math.min(held, plan - taken))
local since = now
if mine and (mine.share > 0) == (share > 0) then since = mine.since end
redis.call('HSET', KEYS[2], me, string.format('%d %d %d %d %d', booked, now + (booked > 0 and ttl or math.min(ttl, patience)), want, share, since))
return { share }
