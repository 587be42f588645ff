-- renew has a session last for another while, unless it has been ended. ARGV[3] is the session and
-- [4] its time to live. The reply: 1, or 0 if it has been ended; the news; and how many hosts it has.
local session, sessions = ARGV[3], root .. 'w'
if not call('ZSCORE', sessions, session) then return { 0, { 0, {} }, 0 } end
call('ZADD', sessions, 'XX', now + tonumber(ARGV[4]), session)
local own = root .. 'o:' .. session
return { 1, news(session), call('HLEN', own) - call('HEXISTS', own, '#') }
