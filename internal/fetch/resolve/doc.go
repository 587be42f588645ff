// Package resolve looks up the addresses of hosts and caches them.
//
// A [Resolver] keeps an answer for two minutes, because Go's resolver does not say how long it is valid, and keeps for
// half a minute that a name does not exist. While the name servers do not answer, an expired answer is used for up to
// an hour: the address of a host changes less often than a resolver fails. Concurrent lookups of a name share one
// query.
//
// [Static] answers, which the user has set, take precedence over all others. After them, localhost and the names below
// it are this machine (RFC 6761, 6.3), whatever name servers or files say.
//
// The package checks no addresses; its callers do that when they connect. A Resolver is safe for concurrent use, and
// Close ends its lookups.
package resolve
