-- set changes bounds of a job. KEYS are the job and what was drawn. ARGV[3] is how many URLs are done; then follow the
-- terms of the bounds and their values (0: no bound). The reply: the values before (empty: none).
--
-- Processes of earlier versions did not count pages without a bound. For a job of theirs, which has no field `counted`,
-- the number of done URLs counts as drawn.
if gone('id') then return gone('id') end
local job, drawn, before = KEYS[1], KEYS[2], {}
local function has(field) return call('HEXISTS', job, field) == 1 end
for i = 4, #ARGV, 2 do
  local term = 'term:' .. ARGV[i]
  local value = call('HGET', job, term) or ''
  if ARGV[i] == 'max_pages' and not has('counted') and not has('set:max_pages') and (value == '' or value == '0') then
    call('HSET', drawn, 'max_pages', int(math.max(tonumber(call('HGET', drawn, 'max_pages') or '0'), tonumber(ARGV[3]))))
  end
  before[#before + 1] = value
  call('HSET', job, term, ARGV[i + 1], 'set:' .. ARGV[i], '1')
end
call('HINCRBY', job, 'changes', 1)
return before
