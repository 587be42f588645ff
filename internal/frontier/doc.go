// Package frontier holds the URLs not yet visited and decides which is next.
//
// A URL is unknown, queued, leased or visited, and moves in that order; a lease
// that could not be used, and a fetch worth repeating, return it to queued. Queued
// URLs wait in one queue per host (retries beside it, each with its own not-before
// time), and hosts wait in a heap ordered by the instant at which they may be asked
// next. That instant comes from a [Pacer], which the rate limiter implements, so
// politeness is a matter of scheduling here: a host that must wait costs a heap
// entry, never a worker.
//
// Before a host's first URL comes its robots.txt. A [Gate] says for each URL whether
// its origin's rules are known (go, or refuse with a reason), nobody has asked for
// them yet (the frontier then leases the robots.txt request itself, paced like every
// other request), or they are on their way (the host waits).
//
// The invariant: queued + leased is exact. It is zero when, and only when, the crawl
// is complete, so the end needs no idle timer.
//
// A lease ends one way: with [Frontier.End] and a [Disposition]. [Done]: the URL is visited.
// [RetryAt]: it failed, and is asked for again. [WaitHost]: no request was made. [GiveUp]: it was
// of the frontier's own asking. When the request is over [Frontier.Release] frees its slot. What
// a failure says of the URL and of the host decides package attribution, which has the history of
// each host; the frontier knows nothing of statuses. While a host fails, each try is another
// URL's, so that an outage uses up the attempts of none; a URL of which a failure would be its own
// goes alone.
//
// # What does not fit in memory
//
// In a long queue, which is that of a host and a rank, some hundred URLs at each end are as they are
// used, and those between them packed: two or three dozen bytes each, where neighbours are links of
// one page, and nothing for the garbage collector to follow.
//
// Without a [Storage] everything is in memory and ends with the process. With one every URL
// lies there as well, and memory holds the heads of queues: of each host the URLs that go
// first, as many as [Config.Resident] allows. When half of them are gone the host asks the
// store for more, and goes on with what it has; the answer comes to [Frontier.Take]. Hosts
// beyond [Config.MaxHosts] are inactive in the store with all their URLs, and are activated
// first come first served as others run out of work. So nothing is dropped for want of
// memory, and nobody waits for a disk but the host whose URLs are on it.
//
// Nor does a host that refuses to be asked for long keep others out: it gives its place to
// one that is inactive, and waits behind the others for its next. When all are known to
// refuse, nobody moves until the first of them may be asked.
//
// A crawl that goes on where another ended begins with every host inactive: to resume is
// not another way of beginning.
//
// A store may know of rounds: then the URLs of a later one have been visited before, and an
// [Item] says what was found there. To the frontier they are queued like any other.
//
// The order of a host's URLs is that of their ranks and then that in which they were found,
// wherever they lie: a URL of a better rank than the last one in memory takes its place.
//
// # When several processes share a store
//
// An [Ownership] has the hosts by turns in the frontiers of several processes. Each asks for
// hosts when it has slots to spare and nothing to lease, and is the only one to pace those
// that it has. It gives a host back that has had no URL for two seconds; one that refuses
// to be asked for long, if others want its place; and half of those that wait for a slot, if
// another process has slots to spare. A host that is lost is gone at once, and of its leases
// nothing comes back: the next to have it asks for their URLs again. [Frontier.Over] tells the end of
// the work of all, which is not that of this one's.
//
// # Who may call what
//
// [Frontier] is not safe for concurrent use: one goroutine owns it, and adds, leases
// and acknowledges. Two things may be called from elsewhere: [Lease.Started] and
// [Frontier.Counts].
//
// # Hosts that are excluded
//
// A person may exclude a host: [Frontier.Exclude]. Nothing further of it is leased, and it keeps its
// URLs. When no others are left [Frontier.Blocked] says so; whether to wait for somebody to
// include one is the owner's to decide.
//
// # When all hosts wait together
//
// A limit of all hosts together (a rate, the requests that are out, bytes per second) is met
// by the host that comes up first, and then holds for every other. So nobody else is asked
// until then, or until a slot is freed, and the host keeps its place in front.
//
// # Why slow hosts do not hold up the others
//
// A host that answers in five seconds holds a slot 250 times as long as one that answers in 20
// milliseconds, so a few such hosts would fill every slot and stop the rest, however polite
// each is. So a request that has waited for its first byte for [SlowAfter] gives its slot back
// ([Frontier.Overdue]), and the next requests of its host take none until it answers sooner.
// They hold one of Config.ExtraSlots instead. A host that has not answered yet has
// one lease out, as it may be slow, or dead.
//
// The extra slots are not without number, and a body may come slowly too. Hosts that have not
// answered yet, hosts that hold a slot for longer than [SlowAfter], and hosts that find no
// extra slot therefore share at most half of the slots; the other half stays with hosts
// known to be quick. When no quick host has work and no new one waits, slow ones may use all.
//
// Of the shared slots and of the extra slots, the classes of hosts that wait for them take one
// after another in turns: who has not been asked yet may turn out to be quick, and who is slow
// is not to wait until the Web has no new hosts left.
package frontier
