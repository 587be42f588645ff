-- set changes bounds of a job. KEYS are the job, its workers and what was drawn; ARGV the time (0:
-- the server's), the job's id, how many URLs are done, and then each bound by its term, with its
-- value (0: none). The reply: what each was before (empty: there was none).
--
-- Where nobody has counted the pages so far, what is done stands for them: no process may be
-- there then, as it would go on without counting. From the first bound on they are counted by all,
-- whatever it is later. That there is none is no change then, and does not have them counted.
local now = tonumber(ARGV[1])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local job, workers, drawn, before = KEYS[1], KEYS[2], KEYS[3], {}
if redis.call('HGET', job, 'id') ~= ARGV[2] then return redis.error_reply('NOJOB the job is gone') end
local function counted(term)
  local value = redis.call('HGET', job, 'term:' .. term)
  return value and value ~= '0' or redis.call('HGET', job, 'set:' .. term)
end
local idle = nil -- a bound that is none, and was none
for i = 4, #ARGV, 2 do
  if ARGV[i] == 'max_pages' and not counted('max_pages') then
    if redis.call('ZCOUNT', workers, string.format('(%d', now), '+inf') == 0 then
      local n = math.max(tonumber(redis.call('HGET', drawn, 'max_pages') or '0'), tonumber(ARGV[3]))
      redis.call('HSET', drawn, 'max_pages', string.format('%d', n))
    elseif ARGV[i + 1] == '0' then
      idle = i
    else
      return redis.error_reply('UNCOUNTED a process is there')
    end
  end
end
for i = 4, #ARGV, 2 do
  before[#before + 1] = redis.call('HGET', job, 'term:' .. ARGV[i]) or ''
  if i ~= idle then redis.call('HSET', job, 'term:' .. ARGV[i], ARGV[i + 1], 'set:' .. ARGV[i], '1') end
end
redis.call('HINCRBY', job, 'changes', 1)
return before
