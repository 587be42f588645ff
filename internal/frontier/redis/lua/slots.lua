-- slots divides the requests that the processes of a job may have in flight. KEYS are the job and the shares. ARGV[3] is
-- the process, [4] how long its share lasts in milliseconds, [5] how many requests all processes may have in flight, [6]
-- how many the process may have until it gets the reply (its share, or what is in flight if that is more), and [7] how
-- many it could use. The reply: its new share.
--
-- A process is booked with at least what it may have in flight: if its share becomes smaller, with the former share
-- until it asks again, and so has got the reply. What is booked of all processes whose time has not ended never adds up
-- to more than the plan.
--
-- A process that can use it always gets an equal part, and in addition what no other process can use. If there is less
-- than one request for each process, they take turns: a process that has had a share for a while loses it, and free
-- ones go to the processes that have waited longest.
if gone('id') then return gone('id') end
local me, ttl, plan, held, want = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local turn, patience = 2000, 3000 -- milliseconds: of a turn, and for which a waiting process counts without asking again

-- A field per process: what is booked, until when, how many it could use, its share, and since when it has a share or
-- has none.
local all, others, mine = call('HGETALL', KEYS[2]), {}, nil
for i = 1, #all, 2 do
  local booked, till, wants, share, since = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  local o = booked and { id = all[i], booked = tonumber(booked), wants = tonumber(wants), share = tonumber(share), since = tonumber(since) }
  if not o or tonumber(till) <= now then
    call('HDEL', KEYS[2], all[i])
  elseif o.id == me then
    mine = o
  else
    others[#others + 1] = o
  end
end
if want == 0 and held == 0 then
  call('HDEL', KEYS[2], me)
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
call('HSET', KEYS[2], me, string.format('%d %d %d %d %d', booked, now + (booked > 0 and ttl or math.min(ttl, patience)), want, share, since))
return { share }
