-- hello stores that a process lives or, with a time to live of 0, that it leaves. KEYS are the job, its processes, their
-- reports, the seeds, the processes that have nothing to do, and what was drawn. ARGV[3] is the process, [4] its time to
-- live, and [5] its report. [6] is its state: w (it works), i (it has no URL), b (all its hosts refuse requests) or x
-- (operators have excluded all its hosts); [7] for how long it has been in that state; [8] the time until the first host
-- refuses no more; [9] 1 if the hosts demand that wait; [10] for how long hosts may refuse; [11] the reason, for people.
-- Times are in milliseconds. The reply: the fields of the job and their values, among them `blocked`; the number of the
-- last seed; the reports of the other living processes; and the time.
if gone('id') then return gone('id') end
local job, workers, infos, seeds, idle, drawn = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local me, ttl, state = ARGV[3], tonumber(ARGV[4]), ARGV[6]
local lives, idles = ttl > 0, ttl > 0 and state ~= 'w'

local function forget(id)
  call('ZREM', workers, id)
  call('HDEL', infos, id)
  call('HDEL', idle, id)
  call('HDEL', drawn, 'max_pages/' .. id) -- its last request, kept so that the process could repeat it
end
if lives then
  call('ZADD', workers, now + ttl, me)
  call('HSET', infos, me, ARGV[5])
else
  forget(me)
  call('HSET', job, 'parted', int(now)) -- other processes can acquire the hosts that it had
end
if idles then
  call('HSET', idle, me, string.format('%s %d %d %s %d %s', state, now - tonumber(ARGV[7]), now + tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10]), ARGV[11]))
else
  call('HDEL', idle, me)
  if lives then call('HDEL', job, 'blocked') end
end
-- A process that was silent for an hour is forgotten.
for _, id in ipairs(call('ZRANGEBYSCORE', workers, '-inf', now - 3600000, 'LIMIT', 0, 100)) do
  forget(id)
end

-- blocked returns why only hosts remain that refuse requests, or nil if a process works or may get work. Other processes
-- learn within a lease of hosts that a process has left, and request free hosts every two seconds. So all processes
-- must have had nothing to do for that long.
local function blocked()
  local since = tonumber(call('HGET', job, 'parted') or '0')
  local patience, ordered, first, why, excluded = 0, true, nil, nil, nil
  local all = call('ZRANGE', workers, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    local till = tonumber(all[i + 1])
    if till <= now then -- the process has died, and its hosts return
      since = math.max(since, till)
    else
      local line = call('HGET', idle, all[i])
      if not line then return nil end
      local is, from, expiry, order, most, text = string.match(line, '^(%S) (%d+) (%d+) (%d) (%d+) (.*)$')
      since, patience = math.max(since, tonumber(from)), math.max(patience, tonumber(most))
      if is == 'x' then excluded = text end
      if is == 'b' then
        ordered = ordered and order == '1'
        if not first or tonumber(expiry) < first then first, why = tonumber(expiry), text end
      end
    end
  end
  local long = first and ordered and first > since + patience
  if (first or excluded) and now >= since + math.max(ttl, 3000) and (long or now >= since + patience) then
    return why or excluded
  end
end

if idles and not call('HGET', job, 'blocked') then
  local why = blocked()
  if why then call('HSET', job, 'blocked', why) end
end
local last, others = call('ZRANGE', seeds, -1, -1, 'WITHSCORES'), {}
for _, id in ipairs(call('ZRANGEBYSCORE', workers, '(' .. int(now), '+inf')) do
  if id ~= me then others[#others + 1] = call('HGET', infos, id) or '' end
end
return { call('HGETALL', job), last[2] or '0', others, now }
