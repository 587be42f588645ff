// Package limit has six limiters with one interface: token bucket, fixed window, sliding window as a counter and as a
// log, leaky bucket, and concurrency. Any program can use them; a crawl uses them for the settings cap and quota.
//
//	l, err := limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 10, Per: time.Second, Burst: 20})
//	if err != nil {
//		return err // names the field and says how to mend it
//	}
//	if err := l.Acquire(ctx); err != nil { // waits for its turn
//		return err // is ErrLimited, ErrQueueFull, ErrClosed or the context's
//	}
//
// [New] builds a limiter of any [Kind] from a [Spec]. A [TokenBucket] can also be charged afterwards. [All] combines
// several limiters: a permit is taken from all of them or from none. [Keyed] has one limiter for each of a bounded
// number of keys. [AcquireRelease] is the safe way to hold a permit of a [Concurrency] limiter. Package transport
// limits HTTP requests, and crawl.Client learns rates.
//
// # Which one
//
// A token bucket fits most cases: a rate, and a burst on top. A leaky bucket keeps requests apart. A window fits a rule
// such as "so many per minute": the log if the rule must hold for any minute, the counter if the log takes too much
// memory, and the fixed window if twice as many around the border of two windows do no harm. Concurrency bounds the
// requests in flight.
//
//	feature                        TokenBucket    FixedWindow  SlidingWindow  SlidingWindowLog  LeakyBucket     Concurrency
//	most in any span of Per        Burst+Permits  2×Permits    2×Permits      Permits           Permits+weight  no bound
//	most at one instant            Burst          Permits      Permits        Permits           the weight      Max
//	bytes, the log with n instants 128            128          128            160 + 16n to 32n  128             112
//	Wait and RetryAfter            exact          exact        exact          exact             exact           not known
//	a deadline too early fails     at once        at once      at once        at once           at once         when it comes
//	Release                        does nothing   does nothing does nothing   does nothing      does nothing    frees a permit
//
// All of them take a weight as one request, serve callers strictly in the order of arrival, and close the gap when a
// caller gives up. None allocates memory when a permit is ready, except a log that grows. While a caller waits,
// TryAcquire fails. Only the first in line has a timer, set for the nanosecond at which there is room; when it leaves,
// it wakes the next. If a timer is late, no burst makes up for it.
//
// # What always holds
//
//   - The permits granted obey the algorithm's bound at instants of a clock that is read under the lock and never goes back.
//   - Waits are whole nanoseconds, rounded up. The arithmetic is exact, in integers of 64 and 128 bits, for any rate that an
//     int64 of permits and a [time.Duration] can express.
//   - Each call counts its weight in exactly one of Statistics.Acquired, Rejected and Cancelled.
//   - A call whose context has ended acquires nothing.
//
// Everything is safe for concurrent use. Nothing starts a goroutine, and no count is kept on disk or shared between
// processes; package admit does that. Tests run in a bubble of testing/synctest.
package limit
