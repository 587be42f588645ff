// Package redis keeps what keys have used of plans in Redis, so that many processes share
// one count: a single server, one behind Sentinel, or a cluster, of Redis or Valkey.
//
// A decision is one script, take.lua, and one trip. It reads the server's clock, so that
// the clocks of the processes do not matter, checks all plans, and writes only if all of
// them allow. What it computes with and stores are the states of package admission; it
// replies with what it has found, and the pure functions there make the Result of it. The
// two decide the same to the last bit, and a reply on which they do not agree is an error.
//
// # What is stored
//
// The key is rate_limiter:<plan>:{<key>}. The braces are a cluster's hash tag: all plans of a
// key are in one slot. Braces within the key are escaped, and %. The value is a hash with
// v, the version "1", and binary fields of eight bytes, big-endian: of a bucket t, its tokens
// (a double), and ts, the microsecond they were right (an integer); of a window ts, when it
// began, c and p, the tokens taken in it and in the one before (integers). It expires after
// [admission.Plan.TTL], when nothing that was used counts any more.
//
// # When Redis does not answer
//
// Each decision has a deadline of its own, which begins when there is a connection: that is
// made beside the decisions, with the script loaded, and only the first of them wait for it.
// A late decision fails with context.DeadlineExceeded, and may have been charged. After three
// failures in a row, of which those that were under way together count as one, a breaker
// opens, and from then on Take fails at once, with [ErrOpen]; the store
// is tried again in the background, by a question that charges nothing, so that no caller
// waits for a server that is not there. In a cluster there is a breaker for each sixteenth
// of the slots: a node that is down takes no others with it. What an error means for a
// request, and who decides meanwhile, is the [admission.Admitter]'s: FailOpen, FailClosed,
// or a memory repository that it keeps warm, at this process's share of each plan, which is
// charged to Redis afterwards.
// Nothing is sent twice, as it would be charged twice, but for a script the server did not
// know (NOSCRIPT, after a restart, a flush or a failover): it did nothing, and is sent again
// at once with its text.
//
// # Fewer trips
//
// Those who ask for one token of a key while others do go together: one question for all who
// came since the last one left, which goes when that has been answered, or after a sixteenth
// of the deadline. The tokens go to those who came first.
//
// What a denial told is remembered for a minute at most. Others only ever take, so while
// the remembered state denies, Redis would too: no trip, and no other decision. Only a
// Remove by another process is seen late.
//
// Leases ([Config.Lease]) are tokens charged before they are needed and given out here
// without a trip. They are charged as all are, so the long run is exact. But a token may be
// used up to the length L of a lease after it was charged: over any time W all processes
// together admit capacity + rate·(W+L) of a bucket, which is rate·L more than without. A
// fixed window admits not one more, since no lease reaches into the next; of a sliding one
// the rate is capacity by length. What is not used
// when a lease is over is lost to the client: a lease is no larger than what was used in the
// one before, or what that would have needed when it was used up early, and never larger than rate·L
// and capacity/(2·processes). Where that is below two there are none.
//
// All of it is safe for concurrent use. [New] starts nothing and does not need Redis to be
// there; goroutines are begun by connecting and by probing, and [Repository.Close] waits for them.
package redis
