-- renew extends a session that has not ended. ARGV[3] is the session and [4] its time to live. The reply: 1, or 0 if the
-- session has ended; the news; and the number of its hosts.
local session, sessions = ARGV[3], root .. 'w'
if not call('ZSCORE', sessions, session) then return { 0, { 0, {} }, 0 } end
call('ZADD', sessions, 'XX', now + tonumber(ARGV[4]), session)
local own = root .. 'o:' .. session
return { 1, news(session), call('HLEN', own) - call('HEXISTS', own, '#') }
