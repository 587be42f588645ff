// Package resolve finds the addresses of hosts, and remembers them.
//
// A crawl connects to the same hosts again and again, and without a memory each connection would cost a lookup. A
// [Resolver] keeps what it was told for a time of its own choosing, because Go's resolver hides how long the answer
// may be kept: two minutes, within what the records of busy sites say. It keeps that a name does not exist for half a
// minute. It keeps the answers for so many names; one that is forgotten is looked up again.
//
// One lookup serves all who ask for its name meanwhile, and goes on when one of them gives
// up. While the name servers do not answer, an answer that is too old is given out instead,
// for an hour: the address of a host changes less often than a resolver fails. [Resolver.Doubt]
// has a name looked up again before its time, for whoever met nobody at its addresses.
//
// [Static] answers go before all others. They are the user's own words, so that whoever
// guards addresses can take them as such: see [Answer]. Behind them, localhost and the names
// below it are this machine (RFC 6761, 6.3), whatever name servers or files say.
//
// The package decides nothing about addresses: whoever dials one checks it then. A Resolver is safe for concurrent
// use. It starts goroutines only for lookups under way, and Close ends them.
package resolve
