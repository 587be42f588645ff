// Package resolve finds the addresses of hosts, and remembers them.
//
// A [Resolver] keeps an answer for two minutes, because Go's resolver hides how long it may be kept, and that a name
// does not exist for half a minute. While the name servers do not answer, an answer that is too old is given out, for
// an hour: the address of a host changes less often than a resolver fails. One lookup serves all who ask for its name
// meanwhile.
//
// [Static] answers, which are the user's own words, go before all others. Behind them, localhost and the names below
// it are this machine (RFC 6761, 6.3), whatever name servers or files say.
//
// Whoever dials an address checks it then. A Resolver is safe for concurrent use, and Close ends its lookups.
package resolve
