package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Span counts the requests that reached the server in a part of a run.
type Span struct {
	Capacity float64 `json:"capacity"` // requests that the server would have admitted and that the client's ceiling allows
	Sent     int     `json:"sent"`     // that reached the server
	Admitted int     `json:"admitted"` // of Sent: answered successfully, and in time
	Refused  int     `json:"refused"`  // of Sent: refused by a limiter
	Failed   int     `json:"failed"`   // of Sent: all others
}

// Utilisation is the used share of the capacity. It is above 1 with a burst, and zero without capacity.
func (s Span) Utilisation() float64 { return share(float64(s.Admitted), s.Capacity) }

// RefusedShare is the share of the requests that was refused.
func (s Span) RefusedShare() float64 { return share(float64(s.Refused), float64(s.Sent)) }

// FailedShare is the share of the requests that failed.
func (s Span) FailedShare() float64 { return share(float64(s.Failed), float64(s.Sent)) }

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

func (s *Span) add(t Span) {
	s.Sent += t.Sent
	s.Admitted += t.Admitted
	s.Refused += t.Refused
	s.Failed += t.Failed
	s.Capacity += t.Capacity
}

// Never is the duration until an event that did not happen in the run.
const Never = time.Duration(math.MaxInt64)

// Result is the result of a run. Results of equal runs are equal by ==.
type Result struct {
	Scenario string // its name
	Strategy string
	Seed     uint64
	First    Span // the first minute: the search
	Steady   Span // the rest of the run

	// TimeTo90 is the time until the first span of 5 s (or of 20 requests) at 90 % of the capacity, or Never.
	TimeTo90 time.Duration
	// Reaction is the longest time from a drop of the capacity until less is sent than the new one. Zero means that
	// the capacity never dropped. It may be Never.
	Reaction time.Duration
	// Recovery is the longest time from a rise of the capacity until 90 % of it is used. Zero means that the capacity
	// never rose. It may be Never.
	Recovery time.Duration

	P95 time.Duration // latency of admitted requests after the first minute, to 2 %
	Counts

	// Merged is the time until several hosts were first paced as one, or Never. Zero means that there was one host.
	Merged time.Duration
	// Evenness is Jain's index of the permits of several hosts after the first minute: 1 if all got as many, and 1/n
	// if one of n got all. Zero means that there was one host.
	Evenness float64
}

// Counts has what is counted over the whole run.
type Counts struct {
	Bans              int     `json:"bans"`                          // times the server locked the client out
	MaxTries          int     `json:"max_tries"`                     // most tries of one URL, refused ones included
	RetriesPerFailure float64 `json:"retries_per_failure"`           // per URL that failed; zero if none did
	GivenUp           int     `json:"given_up"`                      // URLs that failed four times, or for good
	InsideRetryAfter  int     `json:"inside_retry_after"`            // requests sent during a known Retry-After
	MaxIn100ms        int     `json:"max_in_100ms"`                  // requests sent within any 100 ms
	OutageRate        float64 `json:"requests_per_minute_of_outage"` // without the first second of each outage
}

func (r Result) String() string {
	text := fmt.Sprintf("first minute %s/%s, then %s/%s, failed %s %%; to 90 %% %s, reaction %s, recovery %s; p95 %v; bans %d, tries %d, given up %d, %.2f retries per failure, %d inside Retry-After, %d in 100 ms, %.0f/min in outages",
		percent(r.First.Utilisation()), percent(r.First.RefusedShare()), percent(r.Steady.Utilisation()), percent(r.Steady.RefusedShare()), percent(r.Steady.FailedShare()),
		orNever(r.TimeTo90), orNever(r.Reaction), orNever(r.Recovery), r.P95.Round(100*time.Microsecond),
		r.Bans, r.MaxTries, r.GivenUp, r.RetriesPerFailure, r.InsideRetryAfter, r.MaxIn100ms, r.OutageRate)
	if r.Merged > 0 {
		text += fmt.Sprintf("; hosts paced as one after %s, evenness %.2f", orNever(r.Merged.Round(100*time.Millisecond)), r.Evenness)
	}
	return text
}

func orNever(d time.Duration) string {
	if d == Never {
		return "never"
	}
	return d.String()
}

// Second is one second of a run.
type Second struct {
	At       time.Duration // its beginning, since the start of the run
	Capacity float64       // requests per second
	Span                   // what reached the server
	Granted  int           // permits granted
	Plan     ratelimit.DomainSnapshot
}

type meter struct {
	seconds []Span
	granted []int32
	cap100  []clock.Instant // permits granted in the last 100 ms
	latency histogram

	found       Result // without what is computed at the end
	failedURLs  int    // URLs that failed at least once
	failRetries int    // retries of these URLs
}

// newMeter returns the meter of a client that requests no host more often than ceiling per second.
func newMeter(sc *Scenario, ceiling float64) *meter {
	n := int((sc.Duration + time.Second - 1) / time.Second)
	m := &meter{seconds: make([]Span, n), granted: make([]int32, n)}
	for i := range m.seconds {
		m.seconds[i].Capacity = sc.admits(ceiling, time.Duration(i)*time.Second+time.Second/2)
	}
	return m
}

func (m *meter) sent(now clock.Instant, inside bool) {
	m.granted[now/clock.Instant(time.Second)]++
	if inside {
		m.found.InsideRetryAfter++
	}
	for len(m.cap100) > 0 && m.cap100[0] <= now.Add(-100*time.Millisecond) {
		m.cap100 = slices.Delete(m.cap100, 0, 1)
	}
	m.cap100 = append(m.cap100, now)
	m.found.MaxIn100ms = max(m.found.MaxIn100ms, len(m.cap100))
}

func (m *meter) decided(at clock.Instant, a *Answer) {
	s := &m.seconds[min(int(at/clock.Instant(time.Second)), len(m.seconds)-1)]
	s.Sent++
	switch {
	case a.Refused:
		s.Refused++
	case a.ok():
		s.Admitted++
	default:
		s.Failed++
	}
	if a.Ban {
		m.found.Bans++
	}
}

func (m *meter) answered(now clock.Instant, fb *ratelimit.Feedback, u url, back bool) {
	m.found.MaxTries = max(m.found.MaxTries, int(u.tries))
	ok := fb.Err == nil && fb.StatusCode/100 == 2
	if ok && now >= clock.Instant(time.Minute) {
		m.latency.add(fb.Latency)
	}
	if back {
		return // another try follows
	}
	if !ok {
		m.found.GivenUp++
	}
	if u.failures > 0 {
		m.failedURLs++
		m.failRetries += int(u.tries) - 1
	}
}

func (m *meter) result(s *Simulation) Result {
	r := m.found
	r.Scenario, r.Strategy, r.Seed = s.Scenario.Name, s.Config.Strategy, s.Seed
	for i, sec := range m.seconds {
		if i < 60 {
			r.First.add(sec)
		} else {
			r.Steady.add(sec)
		}
	}
	r.P95 = m.latency.quantile(0.95)
	r.RetriesPerFailure = share(float64(m.failRetries), float64(m.failedURLs))
	m.changes(&r)
	r.OutageRate = m.outageRate()
	return r
}

// evenness returns the index of Jain, Chiu and Hawe ("A quantitative measure of fairness", 1984).
func evenness(sites []*site) float64 {
	var sum, squares float64
	for _, s := range sites {
		sum += float64(s.granted)
		squares += float64(s.granted) * float64(s.granted)
	}
	return share(sum*sum, squares*float64(len(sites)))
}

// width returns the seconds over which a capacity can be measured: five, or as many as twenty requests take.
func width(capacity float64) int { return max(5, int(math.Ceil(20/capacity))) }

// reached returns the time from second i to the end of the first span with 90 % of the capacity, or Never.
func (m *meter) reached(i int) time.Duration {
	capacity := m.seconds[i].Capacity
	w := width(capacity)
	var sum int
	for j := i; j < len(m.seconds); j++ {
		sum += m.seconds[j].Admitted
		if j-w >= i {
			sum -= m.seconds[j-w].Admitted
		}
		if j-i+1 >= w && float64(sum) >= 0.9*capacity*float64(w) {
			return time.Duration(j+1-i) * time.Second
		}
	}
	return Never
}

// lowered returns the time from second i to the first two seconds in which no more is sent than the capacity, or Never.
func (m *meter) lowered(i int) time.Duration {
	limit := 2*1.05*m.seconds[i].Capacity + 1
	for j := i; j+1 < len(m.seconds); j++ {
		if float64(m.granted[j]+m.granted[j+1]) <= limit {
			return time.Duration(j-i) * time.Second
		}
	}
	return Never
}

// changes measures how the client followed jumps of the capacity: changes by more than a tenth from one second to the
// next.
func (m *meter) changes(r *Result) {
	r.TimeTo90 = m.reached(0)
	for i := 1; i < len(m.seconds); i++ {
		before, now := m.seconds[i-1].Capacity, m.seconds[i].Capacity
		switch {
		case now > 1.1*before:
			r.Recovery = max(r.Recovery, m.reached(i))
		case now < 0.9*before:
			r.Reaction = max(r.Reaction, m.lowered(i))
		}
	}
}

func (m *meter) outageRate() float64 {
	var sent, down int
	for i := 1; i < len(m.seconds); i++ {
		if m.seconds[i].Capacity == 0 && m.seconds[i-1].Capacity == 0 {
			sent += int(m.granted[i])
			down++
		}
	}
	return 60 * share(float64(sent), float64(down))
}

// histogram counts latencies in classes that grow by 2 %, from 10 µs to half an hour.
type histogram struct {
	classes [960]int32
	n       int
}

const (
	leastLatency = 10 * time.Microsecond
	classWidth   = 0.02 // of the logarithm
)

func (h *histogram) add(d time.Duration) {
	i := int(math.Log(float64(max(d, leastLatency))/float64(leastLatency)) / classWidth)
	h.classes[min(i, len(h.classes)-1)]++
	h.n++
}

// quantile returns the upper end of the class that holds the quantile q, or zero without latencies.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	need := int(math.Ceil(q * float64(h.n)))
	i := 0
	for sum := 0; i < len(h.classes); i++ {
		if sum += int(h.classes[i]); sum >= need {
			break
		}
	}
	return time.Duration(float64(leastLatency) * math.Exp(classWidth*float64(i+1)))
}

// Link is the network between client and server. The zero Link takes no time.
type Link struct {
	RTT    time.Duration // least time there and back; zero means none
	Jitter float64       // mean of the exponential delay that is added each way, as a share of RTT/2; zero means none
	// Contention adds periods in which everything takes 3 to 20 times as long, as a client on
	// a busy machine sees a near host. False means none.
	Contention bool
}

const (
	// A busy machine's periods, as measured.
	periodGap = 12 * time.Second // mean time between two
	periodMin = 200 * time.Millisecond
	periodMax = 3 * time.Second
	leastSlow = 3.0
	mostSlow  = 20.0
)

// guard returns how late nearly every request arrives at most: after three means of jitter, or in the worst period of
// contention.
func (l Link) guard() time.Duration {
	half := float64(l.RTT) / 2
	g := 3 * l.Jitter * half
	if l.Contention {
		g = max(g, mostSlow*half)
	}
	return time.Duration(g)
}

type way struct {
	Link
	rnd      *rand.Rand
	from, to clock.Instant // of the present or next period
	factor   float64       // of the delay, in the period
}

// delay returns the time of one way that begins at now. now may be earlier than in the last call.
func (w *way) delay(now clock.Instant) time.Duration {
	d := float64(w.RTT) / 2
	if w.Jitter > 0 {
		d *= 1 + w.Jitter*w.rnd.ExpFloat64()
	}
	if w.Contention {
		if now >= w.to {
			w.period(now)
		}
		if now >= w.from {
			d *= w.factor
		}
	}
	return time.Duration(d)
}

func (w *way) period(now clock.Instant) {
	w.from = now.Add(time.Duration(w.rnd.ExpFloat64() * float64(periodGap)))
	w.to = w.from.Add(periodMin + time.Duration(w.rnd.Float64()*float64(periodMax-periodMin)))
	w.factor = leastSlow * math.Pow(mostSlow/leastSlow, w.rnd.Float64())
}

// Stalls are periods in which no goroutine of the client runs because its machine is busy: timers fire late, and
// responses are read late. The zero Stalls has none.
type Stalls struct {
	Gap     time.Duration // mean time between two of them; zero means no stalls
	Longest time.Duration // each lasts between a tenth of it and the whole; zero means no stalls
}

type stalls struct {
	Stalls
	rnd      *rand.Rand
	from, to clock.Instant // of the present or next one
}

// over returns when a client can act that wants to act at an instant.
func (s *stalls) over(at clock.Instant) clock.Instant {
	if s.Longest == 0 {
		return at
	}
	for at >= s.to {
		s.from = s.to.Add(time.Duration(s.rnd.ExpFloat64() * float64(s.Gap)))
		s.to = s.from.Add(time.Duration((0.1 + 0.9*s.rnd.Float64()) * float64(s.Longest)))
	}
	if at < s.from {
		return at
	}
	return s.to
}

// Offer says when there are URLs to fetch. The zero Offer always has some.
type Offer struct {
	Rate  float64       // URLs per second that come in until Until; zero means that all are there from the start
	Until time.Duration // from then on URLs are unlimited
	On    time.Duration // URLs are available for this long, then
	Off   time.Duration // none for this long, and so on; zero means no pauses
}

// next returns when the next URL is available after taken others: now or later.
func (o Offer) next(now clock.Instant, taken int) clock.Instant {
	at := now
	if o.Rate > 0 && time.Duration(now) < o.Until {
		at = max(at, min(clock.Instant(seconds(float64(taken)/o.Rate)), clock.Instant(o.Until)))
	}
	if o.Off > 0 {
		if in := time.Duration(at) % (o.On + o.Off); in >= o.On {
			at = at.Add(o.On + o.Off - in)
		}
	}
	return at
}
