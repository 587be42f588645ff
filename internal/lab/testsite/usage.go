package testsite

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// bound is how many requests one limit can admit, whatever the client does: first at once, and rate per second of the
// limit's clock.
type bound struct {
	name        string // for people
	first, rate float64
	// window is set if windows begin at fixed times: then the bound is first for each window that the period touches.
	window, offset time.Duration
	plain          bool // it does not change over the day
}

// bounds are the bounds of all limits of an address. Together they allow no more than each does.
type bounds []bound

// boundsOf returns the bounds of a host. A limit on open requests also bounds the requests per second, by the mean time
// that a response takes; without such a time it is no bound.
func boundsOf(h *Host, epoch time.Time) bounds {
	held := func(name string, n int) bound {
		b := bound{name: fmt.Sprintf("%s %d", name, n), first: float64(n), rate: math.Inf(1), plain: true}
		if mean := h.Latency.mean(); mean > 0 {
			b.rate = float64(n) / mean.Seconds()
		}
		return b
	}
	rated := func(name string, rate float64, first int) bound {
		return bound{name: fmt.Sprintf("%s %g/s", name, rate), first: float64(first), rate: rate}
	}
	var all bounds
	add := func(l *Limiter) {
		switch l.Kind {
		case kindLeaky, kindToken:
			all = append(all, rated(l.Kind, l.Rate, l.first()))
		case kindSlots:
			all = append(all, held(l.Kind, l.Concurrent))
		default:
			n := float64(l.Requests)
			b := bound{name: fmt.Sprintf("%s %d per %v", l.Kind, l.Requests, l.Window), first: n, rate: n / l.Window.Seconds()}
			if l.Kind == kindFixed {
				b.window = l.Window
				if !l.fromNew { // windows begin at multiples of their length since 1970
					b.offset = time.Duration(epoch.UnixMicro()%l.Window.Microseconds()) * time.Microsecond
				}
			}
			all = append(all, b)
		}
	}
	for _, l := range h.Limit.limiters() {
		add(&l)
	}
	if h.Load.Rate > 0 {
		all = append(all, rated("queue", h.Load.Rate, 1))
	}
	if n := h.Load.Workers; n > 0 {
		all = append(all, held("workers", n))
	}
	for i := range h.Limits {
		add(&h.Limits[i])
	}
	return all
}

func (b *bound) most(d *day, from, to clock.Instant) float64 {
	if !b.plain {
		from, to = d.of(from), d.of(to)
	}
	if b.window > 0 {
		number := func(at clock.Instant) int64 { return int64(at.Add(b.offset)) / int64(b.window) }
		return b.first * float64(number(to)-number(from)+1)
	}
	if math.IsInf(b.rate, 1) {
		return b.rate
	}
	return b.first + b.rate*to.Sub(from).Seconds()
}

// most returns how many requests a client can have admitted at most that knows all limits beforehand.
func (bs bounds) most(d *day, from, to clock.Instant) float64 {
	least := math.Inf(1)
	for i := range bs {
		least = min(least, bs[i].most(d, from, to))
	}
	return least
}

// rate returns what all limits allow per second in the long run, at full speed; 0 means no bound.
func (bs bounds) rate() float64 { return finite(bs.tightest().rate) }

// finite returns 0 for an infinite rate, which means no bound.
func finite(rate float64) float64 {
	if math.IsInf(rate, 1) {
		return 0
	}
	return rate
}

func (bs bounds) tightest() *bound {
	least := &bound{rate: math.Inf(1), plain: true}
	for i := range bs {
		if bs[i].rate < least.rate {
			least = &bs[i]
		}
	}
	return least
}

// window returns the longest time for which a quota can be used up at once. The used share over a shorter time means
// nothing.
func (bs bounds) window() time.Duration {
	var longest time.Duration
	for i := range bs {
		b := &bs[i]
		longest = max(longest, b.window)
		if b.window == 0 && !b.plain {
			longest = max(longest, time.Duration(b.first/b.rate*float64(time.Second)))
		}
	}
	return longest
}

// long returns the mean rate over whole days; 0 means no bound.
func (bs bounds) long(d *day) float64 {
	least := math.Inf(1)
	for i := range bs {
		rate := bs[i].rate
		if !bs[i].plain {
			rate *= d.mean()
		}
		least = min(least, rate)
	}
	return finite(least)
}

func (bs bounds) String() string {
	words := make([]string, len(bs))
	for i := range bs {
		words[i] = bs[i].name
	}
	return strings.Join(words, ", ")
}

// mean returns how long a response takes on average, including its body.
func (l *Latency) mean() time.Duration {
	mean := float64(l.Typical)
	if l.Dist == distLognormal {
		mean *= math.Exp(l.Spread * l.Spread / 2)
	}
	return time.Duration(mean) + l.Body
}

const (
	sliceTime = 10 * time.Second
	// sliceRequests is how many requests a slice allows at least. At a slow host one request more or less is then 5 %,
	// which is less than the share that may go unused.
	sliceRequests = 20
	goodShare     = 0.9 // used share from which a crawler counts as having found the limit
)

// usage is how much of what an address allows was used, in consecutive slices of time from the first request on. Each
// slice is judged when the next one begins. Its gate guards it.
type usage struct {
	rate  float64 // by the limits' clock; zero means no bound
	slice time.Duration

	any         bool
	admitted    int64
	first, last clock.Instant

	begin, worked clock.Instant // of the slice: its beginning, by the clock and by the limits' clock
	inSlice       int64
	reached       clock.Instant // beginning of the first good slice, or unknown
	converged     clock.Instant // beginning of the first good slice after the last bad one, or unknown
}

func newUsage(rate float64, window time.Duration) usage {
	u := usage{rate: rate, slice: max(sliceTime, window), reached: unknown, converged: unknown}
	if rate > 0 {
		u.slice = max(u.slice, time.Duration(sliceRequests/rate*float64(time.Second)))
	}
	return u
}

func (u *usage) arrive(worked, now clock.Instant, ok bool) {
	if !u.any {
		u.any, u.first, u.begin, u.worked = true, now, now, worked
	}
	u.last = now
	if now.Sub(u.begin) >= u.slice {
		passed := now.Sub(u.begin) / u.slice
		u.judge(worked)
		if passed > 1 { // a whole slice without a request
			u.converged = unknown
		}
		u.begin, u.worked, u.inSlice = u.begin.Add(passed*u.slice), worked, 0
	}
	if ok {
		u.admitted++
		u.inSlice++
	}
}

// judge ends a slice. A slice lasts until the first request after it, so a little longer than its nominal length; its
// rate is that over its real length.
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

func (u *usage) since(at clock.Instant) *time.Duration {
	if at == unknown || u.rate == 0 {
		return nil
	}
	d := at.Sub(u.first)
	return &d
}

// Usage is how much of the capacity of a limited address was used. It is zero for an address without limits. The hosts
// of one address have the same Usage.
type Usage struct {
	Limits   string `json:"limits,omitempty"` // the limits, and what each allows in the long run
	Admitted int64  `json:"admitted"`         // requests that passed the limits
	// Possible is how many requests could have passed between the first and the last request that reached the limits,
	// if the client had known all limits beforehand. It is an upper bound, which can be reached only if there is one
	// limit. Zero means no bound.
	Possible  float64       `json:"possible"`
	UsedShare float64       `json:"used_share"` // Admitted divided by Possible; random latency may raise it above 1
	Slice     time.Duration `json:"slice_ns"`   // the length of the slices for Reached and Converged
	// Reached is the time from the first request to the first slice in which at least 90 % of the long-run rate was
	// used. Converged is the time to the first slice from which on this is true of every slice, up to the last whole
	// one. Nil means that there is none.
	Reached   *time.Duration `json:"reached_ns"`
	Converged *time.Duration `json:"converged_ns"`
}

func (g *gate) report(hr *HostReport) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := &g.used
	hr.Bans = g.bans.count
	hr.Allowed = g.bounds.long(g.day)
	hr.Usage = Usage{
		Limits: g.bounds.String(), Admitted: u.admitted, Slice: u.slice,
		Reached: u.since(u.reached), Converged: u.since(u.converged),
	}
	if most := g.bounds.most(g.day, u.first, u.last); u.any && !math.IsInf(most, 1) {
		hr.Possible, hr.UsedShare = most, float64(u.admitted)/most
	}
}

func (t *Usage) add(u *Usage) {
	if u.Possible == 0 {
		return
	}
	t.Admitted += u.Admitted
	t.Possible += u.Possible
	t.UsedShare = float64(t.Admitted) / t.Possible
}
