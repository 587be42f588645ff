// Package redis keeps the frontier of a crawl in Redis or Valkey, so that many processes on any number of machines can
// work on it: with one server, one behind Sentinel, or a cluster. [Store] is the [frontier.Storage] of one process;
// there is no coordinator. docs/explanation/scale.md has figures, and says what happens when a server is slow, full or
// gone.
//
// # Who may send requests to a host
//
// Hosts are divided into partitions by a hash of their names. In each partition a process has a session, which ends
// unless it is renewed. A host belongs to the session that has acquired it, by a token that is larger than all earlier
// ones of its partition. Every write about a host carries its token; a write with a stale token changes nothing. The
// holder counts the time of a session from before it sent the renewal, the server from after that. And the holder stops
// a quarter of [Config.Lease] earlier: the frontier leases nothing more ([frontier.Tenure]), and soon after that
// requests in flight are canceled. So no two processes send requests to a host at once, except for a robots.txt that
// was redirected to it.
//
// A host goes to its next holder with the URLs that were handed out and are not done, and with what is known about it
// ([ratelimit.HostMemory]). When a process dies, its hosts return when its sessions end, and then wait for the last
// known gap. So a URL is fetched at least once, and never in a burst.
//
// # The invariant
//
// One script in the partition of its host decides whether a found URL is new, and queues it. Links are stored before
// their page is done. Every URL that was added and is not done is either in one queue or handed out by one host. The
// counts of added and done URLs only grow. So the crawl is complete if the sum of all done counts equals the sum of all
// added counts, read after the done counts. All scripts may be repeated: they skip known and done URLs, and requests of
// acquire and load are numbered.
//
// # What is stored
//
// All keys of a partition p of a job begin with crawl:{job/p}: and so are in one slot.
//
//	n            HASH    v (the job's id), seq, tok, added, done, refused, reclaimed, count, level, split, max, want,
//	                     wants, poor, counts
//	ready        ZSET    hosts with URLs that belong to nobody, by when they are due
//	w            ZSET    sessions, by when they end
//	o:<session>  HASH    its hosts, with token and number of the request; # is the last such number
//	i:<session>  SET     its hosts that have got URLs from others
//	a:<process>  STRING  the number of the last call by which it added URLs
//	h:<host>     HASH    t (token), o (session), r (ranks), k (URLs known), p (pages, where they are bounded),
//	                     m (host memory), nb (not before), lo, ls (last load), b1, b2, … (URLs of
//	                     budgets)
//	q:<host>:<r> LIST    its queued URLs of rank r
//	x:<host>     HASH    its URLs that are handed out
//	s:<i>        SET     fingerprints: buckets of a linear hash table, each an intset
//
// Keys of the job as a whole are in a slot of their own, below crawl:{job}:
//
//	job      HASH  id, key, partitions, max, created, ready, control, parted (when a process left last),
//	               blocked (why it ended with only blocked hosts left), answered (1 if a host has, to any
//	               request), visited (1 if a URL was), unruled (why one could not be requested), its terms,
//	               which of them operators have set since, how often (changes), and counted (1: all
//	               processes count their pages)
//	seeds    ZSET  seeds in the order in which they came
//	openings HASH  the private addresses that seeds allow, by host and port; "-" for none
//	workers  ZSET  processes by when their leases end
//	info     HASH  what each of them reports about itself
//	idle     HASH  of those that have nothing to do: why and since when
//	drawn    HASH  pages drawn by all, and the number of the last request of each living process
//	slots    HASH  per process: how many requests it may have in flight, until when, how many it could
//	               use, its share, and since when
//
// Times are milliseconds of the server's clock; between clients and server only durations are exchanged.
//
// The goroutine of the frontier calls Known, Put, Spent, Done, Load, Activate, Deactivate and Commit. All other methods
// are safe for concurrent use.
package redis
