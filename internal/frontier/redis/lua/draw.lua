-- draw reserves a part of a job's budget for a process. It may be repeated. KEYS are the job and what was drawn. ARGV
-- [3] is the process, [4] the number of the request, [5] the name of the budget, [6] its size unless the job has a term
-- of that name (0: no bound), [7] how much is wanted, and [8] how much of earlier draws is given back. What is drawn
-- and not given back counts as used, even if the process has died. The reply: how much was granted, and how much is
-- left.
if gone('id') then return gone('id') end
local last, request, budget, plan = ARGV[5] .. '/' .. ARGV[3], ARGV[4], ARGV[5], tonumber(call('HGET', KEYS[1], 'term:' .. ARGV[5]) or ARGV[6])
if not plan or plan == 0 then plan = 2 ^ 50 end
local before, got = string.match(call('HGET', KEYS[2], last) or '', '^(%d+) (%d+)$')
local drawn = tonumber(call('HGET', KEYS[2], budget) or '0')
if before ~= request then
  drawn = drawn - tonumber(ARGV[8])
  got = math.max(0, math.min(tonumber(ARGV[7]), plan - drawn))
  drawn = drawn + got
  call('HSET', KEYS[2], budget, int(drawn), last, request .. ' ' .. int(got))
end
return { tonumber(got), math.max(0, plan - drawn) }
