// Package limit has six limiters behind one contract, for programs of any kind: token
// bucket, fixed window, sliding window as a counter and as a log, leaky bucket, and
// concurrency. They are those that a crawl has under cap and quota of its settings.
//
// [New] builds the limiter that a [Spec] describes, or each has a constructor of its own.
// [All] takes several together or not at all, and [Keyed] has one for each of a bounded
// number of keys. [AcquireRelease] is the safe way to hold a slot of a [Concurrency]
// limiter. To put one around requests see package transport, and to have rates learned
// see crawl.Client.
//
// Callers are served in the order of arrival, by one timer for the first of them; while
// anyone waits TryAcquire is false. A refusal is an [Error] with the exact time at
// which the same call could succeed. Everything is safe for concurrent use; nothing starts a
// goroutine or is shared between processes (crawl.Admit does that).
//
// Programs test what they build of it in a bubble of testing/synctest, in which the
// limiters go by its time.
//
// The types are aliases of those of [internal/ratelimit/classic], where a table compares them.
// Fields, with units, ranges and what zero means, and methods are told there:
//
//	go doc github.com/treadlight/crawl/internal/ratelimit/classic.WindowConfig
//
// [internal/ratelimit/classic]: https://pkg.go.dev/github.com/treadlight/crawl/internal/ratelimit/classic
package limit
