// Package classic has the six classic limiters behind one contract: hard caps that a
// user sets, beside the adaptive engine, which learns.
//
// # Use
//
//	l, err := classic.NewTokenBucket(classic.TokenBucketConfig{Permits: 10, Per: time.Second, Burst: 20})
//	if err != nil {
//		return err // it names the field and says what to do about it
//	}
//	if err := l.Acquire(ctx); err != nil { // waits for its turn
//		return err // is ErrLimited, ErrQueueFull, ErrClosed or the context's
//	}
//
// [New] builds the limiter that a [Spec] describes, which is how configurations have it.
// [All] makes one limiter of several, which are taken together or not at all. [Keyed] has
// a limiter for each of a bounded number of keys. [AcquireRelease] is the safe way to hold
// a slot of a [Concurrency] limiter.
//
// # Which one
//
// A token bucket for most things: a rate, and a burst on top. A leaky bucket where
// requests must lie apart. A window where the rule that is to be kept is told as "so many
// per minute": the log where it must hold for any minute, the counter where its memory
// would be too much, the fixed one where everybody's minute begins at the same time and
// twice as many around its border do no harm. Concurrency bounds what is under way.
//
//	feature                            TokenBucket    FixedWindow  SlidingWindow  SlidingWindowLog  LeakyBucket     Concurrency
//	most in any span of Per            Burst+Permits  2×Permits    2×Permits      Permits           Permits+weight  no bound
//	most at one instant                Burst          Permits      Permits        Permits           the weight      Max
//	bytes, the log with n instants     128            128          128            160 + 16n to 32n  128             112
//	TryAcquire, Acquire(ctx)           yes            yes          yes            yes               yes             yes
//	timeout, zero is now or never      yes            yes          yes            yes               yes             yes
//	weights, taken as one              yes            yes          yes            yes               yes             yes
//	Wait, until there is room          exact          exact        exact          exact             exact           0 or Never
//	RetryAfter of a refusal            exact          exact        exact          exact             exact           0: unknown
//	deadline that cannot be met fails  at once        at once      at once        at once           at once         when it comes
//	strict first come, first served    yes            yes          yes            yes               yes             yes
//	one timer, for the first in line   yes            yes          yes            yes               yes             none needed
//	others move up on cancellation     yes            yes          yes            yes               yes             yes
//	bounded line, ErrQueueFull         yes            yes          yes            yes               yes             yes
//	Close fails those who wait         yes            yes          yes            yes               yes             yes
//	consistent Statistics              yes            yes          yes            yes               yes             yes
//	Release                            no-op          no-op        no-op          no-op             no-op           frees a slot
//	over-release                       no-op          no-op        no-op          no-op             no-op           counted, harmless
//	fractions lost to rounding         none           none         none           none              none            has none
//	clock set back, idle centuries     harmless       harmless     harmless       harmless          harmless        no clock
//	in All, atomically, and in Keyed   yes            yes          yes            yes               yes             yes
//	allocations of a ready call        0              0            0              0, or growth      0               0
//
// # The line
//
// Those who cannot be served wait in the order of arrival, and while anyone waits nobody
// passes: TryAcquire is false, even for a weight there is room for. Each waits in its own
// goroutine, and only the first has a timer, set for the very nanosecond at which its
// algorithm has room; when it has left, served or not, it wakes the next. So nobody polls,
// no herd is woken, and nobody takes a permit on behalf of another who might be giving up
// at that moment: there is nothing to put back.
//
// A timer fires late, and lateness is never made up for by a clump of grants: a server
// that counts sees the grants and not when they were due. A rate whose interval is below
// what timers can do is reached by a bucket with a burst that covers their lateness.
//
// # What always holds
//
//   - Permits granted obey the algorithm's bound at the instants of a clock that is read
//     under the lock and never taken to go back.
//   - Waits are whole nanoseconds, rounded up; all arithmetic is in integers of 64 and 128
//     bits, for any rate that an int64 of permits and a [time.Duration] can tell.
//   - A call costs its weight in exactly one of Statistics.Acquired, Rejected, Cancelled.
//   - A context that has ended acquires nothing.
//
// # What it does not do
//
// It starts no goroutine, keeps nothing on disk, shares nothing between processes, and
// learns nothing.
package classic
