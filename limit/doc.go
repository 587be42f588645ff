// Package limit has six limiters behind one contract: token bucket, fixed window, sliding
// window as a counter and as a log, leaky bucket, and concurrency. They are for programs of
// any kind, and are those that a crawl has under cap and quota of its settings.
//
//	l, err := limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 10, Per: time.Second, Burst: 20})
//	if err != nil {
//		return err // names the field and the fix
//	}
//	if err := l.Acquire(ctx); err != nil { // waits for its turn
//		return err // is ErrLimited, ErrQueueFull, ErrClosed or the context's
//	}
//
// [New] builds the limiter of any [Kind] that a [Spec] describes; a [TokenBucket] can be charged afterwards, too. [All]
// takes several limiters together or not at all, and [Keyed] has one for each of a bounded number of keys.
// [AcquireRelease] is the safe way to hold a slot of a [Concurrency] limiter. To limit HTTP requests see package
// transport; to have rates learned see crawl.Client.
//
// # Which one
//
// A token bucket for most things: a rate, and a burst on top. A leaky bucket where requests must lie apart. A window
// where the rule reads "so many per minute": the log where it must hold for any minute, the counter where the log's
// memory is too much, the fixed window where twice as many around the border of two windows do no harm. Concurrency
// bounds how many requests are in flight.
//
//	feature                        TokenBucket    FixedWindow  SlidingWindow  SlidingWindowLog  LeakyBucket     Concurrency
//	most in any span of Per        Burst+Permits  2×Permits    2×Permits      Permits           Permits+weight  no bound
//	most at one instant            Burst          Permits      Permits        Permits           the weight      Max
//	bytes, the log with n instants 128            128          128            160 + 16n to 32n  128             112
//	Wait and RetryAfter            exact          exact        exact          exact             exact           not known
//	a deadline too early fails     at once        at once      at once        at once           at once         when it comes
//	Release                        does nothing   does nothing does nothing   does nothing      does nothing    frees a slot
//
// All take weights as one, serve callers strictly in the order of arrival, let the others move up when a caller gives
// up, and allocate nothing when a permit is ready (but a log that grows). While anyone waits TryAcquire is false. Only
// the first in line has a timer, set for the nanosecond at which there is room; when it leaves, it wakes the next. A
// grant that a timer delayed is not made up for by a burst.
//
// # What always holds
//
//   - Permits granted obey the algorithm's bound at the instants of a clock that is read
//     under the lock and never taken to go back.
//   - Waits are whole nanoseconds, rounded up; all arithmetic is in integers of 64 and 128
//     bits, for any rate that an int64 of permits and a [time.Duration] can express.
//   - A call counts its weight in exactly one of Statistics.Acquired, Rejected, Cancelled.
//   - A context that has ended acquires nothing.
//
// Everything is safe for concurrent use. Nothing starts a goroutine, is kept on disk or is
// shared between processes (crawl.Admit does that). Tests run in a bubble of testing/synctest.
package limit
