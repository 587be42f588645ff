// Package redis keeps the frontier of a crawl in Redis or Valkey, for many processes on any number of machines to work
// on: one server, one behind Sentinel, or a cluster. [Store] is the [frontier.Storage] of one process, and there is no
// coordinator. docs/explanation/scale.md has figures, and what happens when a server is slow, full or gone.
//
// # Who may ask a host
//
// Hosts are divided into partitions by a hash of their names. In each partition a process has a session, which ends
// unless it is renewed; a host belongs to the session that has acquired it, by a token that is larger than any before.
// Every write that concerns a host carries its token, and one that is stale changes nothing. The holder counts the
// time of a session from before it sent the renewal, the server from after; and it ceases to ask a quarter of
// [Config.Lease] earlier: the frontier leases nothing more ([frontier.Tenure]), and soon after what is on its way is cut
// off. So no two processes ask a host at once, but for a robots.txt that has moved there.
//
// A host goes to its next holder with the URLs that were handed out and not done, and with what is known of it
// ([ratelimit.HostMemory]). When a process dies its hosts come back when its sessions end, and then wait for the last
// known gap: at-least-once fetches, and never a burst.
//
// # The invariant
//
// The partition of its host decides in a script, at once, whether a found URL is new, and queues it. Links are stored
// before their page is done. Every URL that was added and is not done is in one queue or handed out by one host. Counts
// of added and done URLs only grow, so the crawl is complete when all done, read over all partitions, equal all added,
// read after that. All scripts may be repeated: known and done URLs are skipped, acquire and load number requests.
//
// # What is stored
//
// All keys of a partition p of a job begin with crawl:{job/p}: and so lie in one slot.
//
//	n            HASH    v (the job's id), seq, tok, added, done, refused, reclaimed, count, level, split, max, want, wants, poor
//	ready        ZSET    hosts with URLs that belong to nobody, by when they may be asked
//	w            ZSET    sessions, by when they end
//	o:<session>  HASH    its hosts, with token and number of the request; # is the last of these
//	i:<session>  SET     its hosts that have got URLs from others
//	a:<process>  STRING  the number of the last call by which it added URLs
//	h:<host>     HASH    t (token), o (session), r (ranks), k (URLs known), p (pages, where they are bounded),
//	                     m (what is remembered), nb (not before), lo, ls (last load), b1, b2, … (URLs of
//	                     budgets)
//	q:<host>:<r> LIST    its queued URLs of rank r
//	x:<host>     HASH    its URLs that are handed out
//	s:<i>        SET     fingerprints: buckets of a linear hash table, each an intset
//
// Of the job as a whole there are, in a slot of their own, below crawl:{job}:
//
//	job      HASH  id, key, partitions, max, created, ready, control, parted (when a process left last),
//	               blocked (the verdict), answered (1 if a host has, to any request), visited (1 if a URL
//	               was), unruled (why one could not be asked for), its terms, which of them operators have
//	               set since, how often (changes), and counted (1: all processes count their pages)
//	seeds    ZSET  seeds by the order in which they came
//	openings HASH  the addresses that are not public and that seeds have opened, by host and port; "-" for none
//	workers  ZSET  processes by when they were last heard of
//	info     HASH  what each of them tells of itself
//	idle     HASH  of those who have nothing to do, why and since when
//	drawn    HASH  pages drawn by all, and of each process that is there the number of its last request
//	slots    HASH  what is booked of each that may be out, until when, what it could use, its share and since when
//
// Times are milliseconds of the server's clock, and what clients tell and are told are spans.
//
// The goroutine of the frontier calls Known, Put, Spent, Done, Load, Activate, Deactivate and Commit.
// Everything else may be called from anywhere.
package redis
