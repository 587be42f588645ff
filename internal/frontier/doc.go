// Package frontier holds the URLs not yet visited and decides which one is leased next.
//
// A URL is unknown, queued, leased or visited, and moves in that order. It returns from leased to queued if its lease
// could not be used or if its fetch is worth repeating. Queued URLs wait in one queue per host; retries wait beside it,
// each with its own not-before time. Hosts wait in a heap ordered by the instant at which the next request to them may
// be sent. That instant comes from a [ratelimit.Pacer], which the rate limiter implements, so a host that must wait
// costs a heap entry, never a worker. The invariant: queued + leased is exact, and it is zero if and only if the crawl
// is complete.
//
// The robots.txt of an origin is fetched before its first URL. For each URL a [Gate] says whether the rules of its
// origin are known (the URL passes, or is refused with a reason), whether nobody has requested them yet (the frontier
// then leases the robots.txt request itself, paced like every other request), or whether they are being fetched (the
// host waits).
//
// A lease ends in one way: with [Frontier.End] and a [Disposition]. When the request is over [Frontier.Release] frees
// its slot. Package attribution keeps the history of each host and decides what a failure means for the URL and for the
// host; the frontier knows nothing of statuses. While a host fails, each try is made with another URL. If a failure
// would be attributed to the URL itself, the URL is retried alone (an isolated retry).
//
// # What does not fit in memory
//
// In the queue of a host, each priority level keeps a hundred or so URLs at each end unpacked; if it is longer, those
// between are packed. With a [Storage], on disk or in Redis, every URL is also in the store, and memory holds only the
// heads of the queues: for each host the URLs that go first, as many as [Config.Resident] allows. When half of them are
// used, the frontier loads more from the store and meanwhile continues with what it has; [Frontier.Take] receives the
// answer. Hosts beyond [Config.MaxHosts] are inactive: all their URLs are in the store alone. They are activated first
// come, first served as other hosts run out of work, and a host that refuses requests for long gives up its place to an
// inactive one. A resumed crawl begins with every host inactive. The URLs of a host are ordered by rank and then by
// when they were found, in memory and in the store alike.
//
// # When several processes share a store
//
// If a store is shared (see [Left]), the processes hold its hosts in turn, each for a [Tenure]; a process alone holds
// all of them for ever. A process requests hosts when it has free slots and nothing to lease, and is the only one to
// pace the hosts that it holds. It gives back a host that has had no URL for two seconds, a host that refuses requests
// for long if others want its place, and half of the hosts that wait for a slot if another process has free slots. When
// a process loses a host, it drops the host at once, and the URLs of the host's leases do not return to its queues.
//
// # Slots
//
// A host that answers in five seconds holds a slot 250 times as long as one that answers in 20 milliseconds, so a few
// such hosts would fill every slot. Therefore a request that has waited for its first byte for [SlowAfter] gives its
// slot back ([Frontier.Overdue]), and the next requests of its host hold one of Config.ExtraSlots until the host
// answers sooner. Three classes of hosts share at most half of the slots and take turns: hosts that have not answered
// yet, hosts that hold a slot for longer than [SlowAfter], and hosts that find no extra slot. When no fast host has
// work and no new host waits, slow hosts may use all slots. A limit that applies to all hosts together is noticed at
// the host that comes up first, and then holds back every other host.
//
// [Frontier] is not safe for concurrent use: one goroutine owns it. [Lease.Started], [Lease.Answered] and
// [Frontier.Counts] may be called from other goroutines.
package frontier
