package testsite

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// sliceTime is over how long the used share is looked at to say when it was good.
	sliceTime = 10 * time.Second
	// sliceRequests is how many requests a slice allows at least, on hosts so slow that ten
	// seconds would allow fewer: one of them more or less is 5 %, less than the share that
	// may go unused.
	sliceRequests = 20
	// goodShare is the used share at which a crawler counts as having found the limit.
	goodShare = 0.9
)

// usage is how much of what an address allows was used, and since when it was much. It is
// of constant size: slices of time follow each other from the first request on, and each
// is judged when the next has begun. Its gate guards it.
type usage struct {
	rate  float64 // by the clock of the law; zero: there is no bound
	slice time.Duration

	any         bool
	admitted    int64
	refused     int64
	first, last clock.Instant

	begin, worked clock.Instant // of the slice, and by the clock of the law
	inSlice       int64
	reached       clock.Instant // begin of the first good slice; unknown: none yet
	converged     clock.Instant // begin of the first good slice after the last bad one; unknown: none
}

func newUsage(rate float64, window time.Duration) usage {
	u := usage{rate: rate, slice: max(sliceTime, window), reached: unknown, converged: unknown}
	if rate > 0 {
		u.slice = max(u.slice, time.Duration(sliceRequests/rate*float64(time.Second)))
	}
	return u
}

// arrive notes a request that reached the limits; worked is the clock of the law at now.
func (u *usage) arrive(worked, now clock.Instant, ok bool) {
	if !u.any {
		u.any, u.first, u.begin, u.worked = true, now, now, worked
	}
	u.last = now
	if now.Sub(u.begin) >= u.slice {
		passed := now.Sub(u.begin) / u.slice
		u.judge(worked)
		if passed > 1 { // nobody came for a whole slice
			u.converged = unknown
		}
		u.begin, u.worked, u.inSlice = u.begin.Add(passed*u.slice), worked, 0
	}
	if ok {
		u.admitted++
		u.inSlice++
	} else {
		u.refused++
	}
}

// judge ends a slice. It lasts until the first request after it, so that its length is not
// that of slice to the nanosecond; what it allowed is counted for the time it took.
func (u *usage) judge(worked clock.Instant) {
	allowed := u.rate * worked.Sub(u.worked).Seconds()
	if float64(u.inSlice) < goodShare*allowed {
		u.converged = unknown
		return
	}
	if u.reached == unknown {
		u.reached = u.begin
	}
	if u.converged == unknown {
		u.converged = u.begin
	}
}

// since is the time from the first request to at, nil if at is unknown.
func (u *usage) since(at clock.Instant) *time.Duration {
	if at == unknown || u.rate == 0 {
		return nil
	}
	d := at.Sub(u.first)
	return &d
}
