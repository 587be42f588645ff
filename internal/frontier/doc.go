// Package frontier holds the URLs not yet visited and decides which is next.
//
// A URL is unknown, queued, leased or visited, and moves in that order; a lease that could not be used, and a fetch
// worth repeating, return it to queued. Queued URLs wait in one queue per host (retries beside it, each with its own
// not-before time), and hosts wait in a heap ordered by the instant at which they may be asked next. That instant
// comes from a [Pacer], which the rate limiter implements, so a host that must wait costs a heap entry, never a
// worker. The invariant: queued + leased is exact, and zero when, and only when, the crawl is complete.
//
// Before a host's first URL comes its robots.txt. A [Gate] says for each URL whether its origin's rules are known
// (go, or refuse with a reason), nobody has asked for them yet (the frontier then leases the robots.txt request
// itself, paced like every other request), or they are on their way (the host waits).
//
// A lease ends one way: with [Frontier.End] and a [Disposition]. When the request is over [Frontier.Release] frees
// its slot. What a failure says of the URL and of the host decides package attribution, which has the history of each
// host; the frontier knows nothing of statuses. While a host fails, each try is another URL's; a URL of which a
// failure would be its own goes alone.
//
// # What does not fit in memory
//
// In a long queue, of a host and a rank, some hundred URLs at each end are as they are used, and those between them
// packed. In a [Storage] on disk or in Redis every URL lies as well, and memory holds the heads of queues: of each host the URLs
// that go first, as many as [Config.Resident] allows. When half of them are gone the host asks the store for more,
// and goes on with what it has; the answer comes to [Frontier.Take]. Hosts beyond [Config.MaxHosts] are inactive in
// the store with all their URLs, and are activated first come first served as others run out of work. A host that
// refuses to be asked for long gives its place to one that is inactive. A crawl that is resumed begins with every
// host inactive. The order of a host's URLs is that of their ranks and then that in which they were found, wherever
// they lie.
//
// # When several processes share a store
//
// Of a store that is shared ([Left]) several processes have the hosts by turns, each for its [Tenure]; a process alone
// has all of them, for ever. Each asks for hosts when it has slots to spare and nothing to lease, and is the only one
// to pace those that it has. It gives a host back that has had no URL for two seconds; one that refuses to be asked for
// long, if others want its place; and half of those that wait for a slot, if another process has slots to spare. A host
// that is lost is gone at once, and of its leases nothing comes back.
//
// # Slots
//
// A host that answers in five seconds holds a slot 250 times as long as one that answers in 20 milliseconds, so a few
// such hosts would fill every slot. So a request that has waited for its first byte for [SlowAfter] gives its slot
// back ([Frontier.Overdue]), and the next requests of its host hold one of Config.ExtraSlots until it answers sooner.
// Hosts that have not answered yet, hosts that hold a slot for longer than [SlowAfter], and hosts that find no extra
// slot share at most half of the slots; these classes take turns. When no quick host has work and no new one waits,
// slow ones may use all. A limit of all hosts together is met by the host that comes up first, and then holds for
// every other.
//
// [Frontier] is not safe for concurrent use: one goroutine owns it. [Lease.Started], [Lease.Answered] and
// [Frontier.Counts] may be called from elsewhere.
package frontier
