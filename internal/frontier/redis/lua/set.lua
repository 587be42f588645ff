-- set changes bounds of a job. KEYS are the job and what was drawn; ARGV the time (of
-- no account), the job's id, how many URLs are done, and then each bound by its term, with its
-- value (0: none). The reply: what each was before (empty: there was none).
--
-- Processes of earlier versions counted no pages where there was no bound: of a job of theirs (which has no field
-- counted) what is done stands for them.
local job, drawn, before = KEYS[1], KEYS[2], {}
if redis.call('HGET', job, 'id') ~= ARGV[2] then return redis.error_reply('NOJOB the job is gone') end
local function has(field) return redis.call('HEXISTS', job, field) == 1 end
for i = 4, #ARGV, 2 do
  local term = 'term:' .. ARGV[i]
  if ARGV[i] == 'max_pages' and not has('counted') and not has('set:max_pages') then
    local value = redis.call('HGET', job, term)
    if not value or value == '0' then
      local n = math.max(tonumber(redis.call('HGET', drawn, 'max_pages') or '0'), tonumber(ARGV[3]))
      redis.call('HSET', drawn, 'max_pages', string.format('%d', n))
    end
  end
  before[#before + 1] = redis.call('HGET', job, term) or ''
  redis.call('HSET', job, term, ARGV[i + 1], 'set:' .. ARGV[i], '1')
end
redis.call('HINCRBY', job, 'changes', 1)
return before
