// Package redis keeps the frontier of a crawl in Redis or Valkey, for many processes on any
// number of machines to work on: one server, one behind Sentinel, or a cluster. [Store] is
// the [frontier.Storage] of one process, and there is no coordinator.
//
// # Who may ask a host
//
// Hosts are divided into partitions by a hash of their names. In each partition a process has
// a session, which ends unless it is renewed; a host belongs to the session that has acquired
// it, by a token that is larger than any before. While it does, the local frontier and the
// adaptive engine of that process alone pace it, and no request costs a trip. Every write
// that concerns a host carries its token, and one that is stale changes nothing.
//
// The holder counts the time of a session from before it sent the renewal, the server from
// after; and it ceases to ask a quarter of [Config.Lease] earlier: the frontier leases
// nothing more ([Store.Until]), and what is on its way is cut off ([Store.Held]). So no two
// processes ask a host at once, whatever their clocks say, as long as they run at the same
// speed. The exception is a robots.txt that has moved to a host of another process: it is
// asked for by the one that needs it, once.
//
// A host goes to its next holder with the URLs that were handed out and not done, and with
// what is known of it ([ratelimit.HostMemory]): the rate that was learned, the gap between two
// requests, counted from the end of the last, and until when it is not to be asked. Its holder
// tells that whenever the host has refused, and of one that was asked before each renewal. A host
// is given back when it has had no URL for a while, when others want one that waits for a slot
// here, when one that has nothing to do has far fewer, and when the store is closed. When a process
// dies, its hosts come back when its sessions end, and then wait for
// the last known gap: at-least-once fetches, and never a burst.
//
// # The way of a URL
//
// A URL that is found is told to the partition of its host, whoever has it. A cache of
// fingerprints here spares those that are surely known the trip; for others the script
// decides, in which the seen-set and the queue are one step. The holder of a host loads
// its next URLs, 256 at most, which are handed out to it from then on, and says of each when it
// is done. Links are stored before the page that they were found on is done: a crash between
// repeats a fetch and loses no URL.
//
// The invariant: every URL that was added and is not done is in one queue or handed out by
// one host. URLs added and URLs done are counted and never uncounted, so the crawl is complete
// when the URLs done, read over all partitions, are as many as the URLs added, read after that: then there
// was an instant at which nothing was left, and nobody to add more.
//
// # What is stored
//
// All keys of a partition p of a job begin with crawl:{job/p}: and so lie in one slot; a
// script touches one partition.
//
//	n            HASH    v (the job's id), seq, tok, added, done, refused, reclaimed, count, level, split, max, want, wants, poor
//	ready        ZSET    hosts with URLs that belong to nobody, by when they may be asked
//	w            ZSET    sessions, by when they end
//	o:<session>  HASH    its hosts, with token and number of the request; # is the last of these
//	i:<session>  SET     its hosts that have got URLs from others
//	a:<process>  STRING  the number of the last call by which it added URLs
//	h:<host>     HASH    t (token), o (session), r (ranks), k (URLs known), p (pages, where they are bounded), m (what is remembered), nb (not before), lo, ls (last load), b1, b2, … (URLs of budgets), g (1 if no sitemap is where one usually is), gl (a link to there)
//	q:<host>:<r> LIST    its queued URLs of rank r
//	x:<host>     HASH    its URLs that are handed out
//	s:<i>        SET     fingerprints: buckets of a linear hash table, each an intset
//
// Of the job as a whole there are, in a slot of their own:
//
//	crawl:{job}:job      HASH  id, key, partitions, max, created, ready, control, parted (when a process left last), blocked (the verdict), answered (1 if a host has, to any request), visited (1 if a URL was), unruled (why one could not be asked for), its terms, which of them operators have set since, and how often (changes)
//	crawl:{job}:seeds    ZSET  seeds by the order in which they came
//	crawl:{job}:openings HASH  the addresses that are not public and that seeds have opened, by host and port; "-" for none
//	crawl:{job}:workers  ZSET  processes by when they were last heard of
//	crawl:{job}:info     HASH  what each of them tells of itself
//	crawl:{job}:idle     HASH  of those who have nothing to do, why and since when
//	crawl:{job}:drawn    HASH  pages drawn by all, and of each process that is there the number of its last request
//	crawl:{job}:slots    HASH  what is booked of each that may be out, until when, what it could use, its share and since when
//
// Times are milliseconds of the server's clock, and what clients tell and are told are
// spans. A URL is stored without what its key and its referrer tell already.
//
// # What processes share
//
// The pages of a job ([Config.MaxPages]) are drawn by its processes some at a time: a 64th of
// what is left and one, 256 at most, when half of that is used. What is drawn counts as used until it is
// given back, so that their sum never exceeds the plan; one that is killed takes what it had drawn with
// it, three halves of that at most, beside the pages that were under way. The bound is the job's own:
// [Fleet.Set] changes it, and processes hear of that with a heartbeat. Requests that are
// out at a time are divided by shares that end ([Store.Slots]). How many URLs of a host match
// a pattern ([Config.Budget]) is counted with the host, by the script that adds them: one that is
// known counts once, whoever has found it and whosever the host is. The time of a job begins
// when it is made, by the server's clock ([Store.Elapsed]). Rates are no matter of this package.
//
// # When only blocked hosts remain
//
// A process whose hosts all refuse to be asked may get others yet, from what another finds or
// leaves. So each tells with its heartbeats whether it works, has no URL, or only hosts that
// refuse ([Store.Idles]). When nobody works, and has not for a lease and the patience of whoever
// has most, the script of the next heartbeat notes why as the verdict on the job
// ([Store.Verdict]); it does not wait for the patience to end if the hosts have ordered to be
// left alone for longer. A process that dies, or leaves, begins that time anew: its hosts come
// to the others. Whoever works takes a verdict back, and one that has something to do when it
// hears of one goes on.
//
// That nothing could be asked for, as of no host robots.txt can be had, is known at the end of a
// job: each process notes with the job when it has visited a URL or given one up so, before that
// URL counts as done, and who finds the job complete reads it then ([Store.Unvisited]).
//
// # Trips that are repeated
//
// A command that was not answered is sent again until it is, for [Config.GiveUp]. All
// scripts allow for that: a URL that is known is passed over, one that is done is not
// done again, and acquire and load know the number of their last request. A server that
// has forgotten the scripts is sent them again.
//
// # When Redis is slow, full or gone
//
// What is told waits here, up to [Config.MaxPending] calls; then the crawl waits, with the hosts and URLs
// that it has. Sessions that cannot be renewed end, and their hosts are asked no more. A server that has no
// memory left refuses new URLs: those are dropped and counted, and all else goes on, as the
// scripts that give memory back are let in. A policy of eviction would damage the job, and
// is refused when the job is joined. Counters that are gone end the store: the job was
// purged, or the server has lost it.
//
// A server may lose the last moments only: a replica takes over that had not heard all, or one
// comes back from an append-only file that is written each second. What was added by then is
// added again when it is found again, as each process sees by the number of its last call that
// the partition has forgotten, and empties its cache, within a third of a lease; what was done
// is fetched again. A page that nobody finds again is lost, a seed among them: with appendfsync always no
// restart costs any, and a failover always may, as replicas are told later.
//
// # What is not kept
//
// What became of a URL is in the records of the process that visited it, and nowhere here;
// nor are the positions of its sinks. That a URL is done is told after its record is on the disk
// ([Config.Sync]): a machine that loses its power has written all that nobody fetches again. A process that dies may have written the record of a
// URL that another asks for again: records have the same id then, and crawl merge keeps one.
// robots.txt is asked for by each holder of a host. A process that has no URLs ends when the
// whole job is complete, and while another brings seeds ([Config.Seeding]) it is not; one that
// brings none is to begin when there are URLs ([Await]).
//
// # Figures (2026)
//
// Of 100,000 URLs of 60 bytes and 500 hosts a queued URL took 65 to 69 bytes of the server's
// memory, and one that is done 18, of which 9.2 are its fingerprint (BenchmarkStore). A crawl of
// 3,200 pages of 200 hosts, each of which took 200 ms, by processes of 16 slots took 1.8 scripts
// for a page by one, 2.5 by two and 3.2 to 3.5 by four; two were 1.8 to 2.0 times as fast as one,
// and four 3.2 to 3.3 times, on a machine of two processors that was shared with other work
// (TestFleetGrowth of cmd/crawl, and docs/explanation/scale.md). The records of a crawl of 4,000 pages were
// synced 11 times, which took 30 ms of its one to two seconds.
//
// A process with idle slots asks all partitions for hosts, at first after 50 ms and then every
// two seconds as long as there are none: 32 scripts a second with 64 partitions.
//
// # Who may call
//
// The goroutine of the frontier calls Known, Put, Spent, Done, Load, Activate, Deactivate,
// Learned and Commit. Everything else is safe to call from anywhere.
package redis
