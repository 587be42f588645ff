package simulate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func record(seconds ...[3]int) *meter {
	m := &meter{}
	for _, s := range seconds {
		m.seconds = append(m.seconds, Span{Capacity: float64(s[0]), Admitted: s[1]})
		m.granted = append(m.granted, int32(s[2]))
	}
	return m
}

func times(n int, s [3]int) [][3]int { return slices.Repeat([][3]int{s}, n) }

func TestDynamics(t *testing.T) {
	m := record(slices.Concat(
		times(4, [3]int{10, 1, 1}), times(10, [3]int{10, 10, 10}), // 5 s of 9 on average: seconds 5 to 9, one of 1 among them
		times(3, [3]int{4, 4, 10}), times(7, [3]int{4, 4, 4}), // three seconds too late
		times(2, [3]int{0, 0, 4}), times(4, [3]int{0, 0, 0}),
		times(5, [3]int{10, 0, 1}), times(9, [3]int{10, 9, 9}),
	)...)
	var r Result
	m.changes(&r)
	require.Equal(t, 9*time.Second, r.TimeTo90)
	require.Equal(t, 3*time.Second, r.Reaction)
	require.Equal(t, 10*time.Second, r.Recovery)
	require.InDelta(t, 60*4.0/5, m.outageRate(), 1e-9, "the first second of an outage is not counted")

	r = Result{}
	record(slices.Concat(times(10, [3]int{10, 8, 8}), times(10, [3]int{5, 5, 9}))...).changes(&r)
	require.Equal(t, Never, r.TimeTo90)
	require.Equal(t, Never, r.Reaction)
	require.Zero(t, r.Recovery)
}

func TestMeterSeesWhatMustNotBe(t *testing.T) {
	sc := Scenario{Duration: 2 * time.Minute, Capacity: flat(1)}
	m := newMeter(&sc, 2000)
	m.answered(at(time.Second), &ratelimit.Feedback{StatusCode: tooMany, RetryAfter: 10 * time.Second}, url{tries: 3}, true)
	m.answered(at(2*time.Second), &ratelimit.Feedback{StatusCode: tooMany, RetryAfter: time.Second}, url{tries: 1}, true)
	m.sent(at(11*time.Second-1), true)
	m.sent(at(11*time.Second), false)
	m.sent(at(11*time.Second+99*ms), false)
	m.sent(at(11*time.Second+100*ms), false)
	require.Equal(t, 1, m.found.InsideRetryAfter)
	require.Equal(t, 3, m.found.MaxIn100ms)
	require.Equal(t, 3, m.found.MaxTries)
}

func TestHistogram(t *testing.T) {
	var h histogram
	require.Zero(t, h.quantile(0.95))
	for i := range 100 {
		h.add(time.Duration(i+1) * ms)
	}
	require.InEpsilon(t, 95*ms, h.quantile(0.95), 0.021)
	require.InEpsilon(t, 50*ms, h.quantile(0.5), 0.021)
	h.add(-1)
	h.add(time.Duration(math.MaxInt64))
	require.Equal(t, 102, h.n)
}

func TestEventsComeInOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var q events
	var want []event
	require.Equal(t, forever, q.next())
	for i := range 2000 {
		when := clock.Instant(rnd.IntN(300)) // many of them are equal
		q.push(when, arrival, int32(i))
		want = append(want, event{at: when, seq: uint64(i) + 1, slot: int32(i), what: arrival})
		if rnd.IntN(3) == 0 {
			slices.SortFunc(want, byTime)
			require.Equal(t, want[0].at, q.next())
			require.Equal(t, want[0], q.pop())
			want = want[1:]
		}
	}
	slices.SortFunc(want, byTime)
	for _, e := range want {
		require.Equal(t, e, q.pop())
	}
	require.Equal(t, forever, q.next())
}

func byTime(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) }

func TestLinkDelays(t *testing.T) {
	w := way{Link: Link{RTT: 100 * ms}, rnd: source()}
	require.Equal(t, 50*ms, w.delay(0))
	w = way{Link: Link{RTT: 100 * ms, Jitter: 0.2}, rnd: source()}
	var sum time.Duration
	for range 50_000 {
		d := w.delay(0)
		require.GreaterOrEqual(t, d, 50*ms)
		sum += d
	}
	require.InEpsilon(t, 60*ms, sum/50_000, 0.01)
	require.Zero(t, (&way{rnd: source()}).delay(0))
}

// The periods take the share of an hour that their mean length and the gaps give, and in them everything takes 3 to 20
// times as long.
func TestContentionComesInSpells(t *testing.T) {
	w := way{Link: Link{RTT: 400 * time.Microsecond, Contention: true}, rnd: source()}
	slow := 0
	for i := range 36_000 {
		factor := float64(w.delay(at(time.Duration(i)*100*ms))) / float64(200*time.Microsecond)
		if factor == 1 {
			continue
		}
		slow++
		require.GreaterOrEqual(t, factor, leastSlow)
		require.Less(t, factor, mostSlow+1e-3)
	}
	period := (periodMin + periodMax).Seconds() / 2
	require.InEpsilon(t, 36_000*period/(period+periodGap.Seconds()), slow, 0.25)
}
