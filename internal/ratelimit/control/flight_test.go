package control

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
)

// As many may be in flight as are on average, and four times a Poisson's spread more.
func TestLittlesBound(t *testing.T) {
	for _, tc := range []struct{ rate, mean float64 }{
		{1, 0.1}, {10, 0.15}, {100, 0.15}, {2000, 1}, {0.1, 0.001},
	} {
		n := tc.rate * tc.mean
		got := bound(tc.rate, tc.mean)
		require.GreaterOrEqual(t, float64(got), n+4*math.Sqrt(n)+4)
		require.LessOrEqual(t, float64(got), 1.25*n+4*math.Sqrt(n)+5)
	}
	require.Equal(t, 4, bound(100, 0))
}

// Before the usual latency is known the least one seen stands for it.
func TestBoundBeforeAnythingIsKnown(t *testing.T) {
	r := newRig(t, stranger)
	require.Equal(t, 4, r.Plan(0).InFlight)
	r.rate, r.queue.mean = 100, 0.2
	require.Equal(t, 4+4*20, r.Plan(0).InFlight)
}

// A host that answers ever more slowly gets no more connections.
func TestSlowHostGetsFewConnections(t *testing.T) {
	r := usual(t, 25, 100*time.Millisecond)
	most := r.Plan(r.now).InFlight
	require.Equal(t, bound(r.rate, float64(r.queue.mean)), most)
	grants := r.drive(r.now.Add(20*time.Second), func(clock.Instant) reply { return reply{latency: time.Minute} })
	require.Len(t, grants, most)
}

// busy asks whether two fifths of the rate were used in the last seconds.
func TestBusy(t *testing.T) {
	for _, tc := range []struct {
		every time.Duration
		rate  float64
		want  bool
	}{
		{100 * time.Millisecond, 10, true},
		{100 * time.Millisecond, 20, true},
		{100 * time.Millisecond, 26, false},
		{time.Second, 10, false},
	} {
		var f flight
		now := clock.Instant(0)
		for ; now < at(20); now = now.Add(tc.every) {
			f.send(now)
		}
		require.Equal(t, tc.want, f.busy(now-1, tc.rate), tc.every)
		require.False(t, f.busy(now.Add(busySpan*time.Second), tc.rate), "long ago")
	}
	f := flight{lastSent: at(7)}
	f.sent[7%busySpan] = math.MaxUint16
	f.send(at(7))
	require.Equal(t, uint16(math.MaxUint16), f.sent[7%busySpan])
}

// The seconds that are looked at are the last ones, whatever the gaps.
func TestBusyLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f flight
		all, now := naive{}, clock.Instant(0)
		for range rapid.IntRange(1, 50).Draw(t, "grants") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "gap")))
			f.send(now)
			all[int64(now)/int64(time.Second)]++
		}
		sec := int64(now) / int64(time.Second)
		used := all.in(sec-busySpan+1, sec+1)
		rate := rapid.Float64Range(0.1, 50).Draw(t, "rate")
		if want := used > 0.4*rate*busySpan; f.busy(now, rate) != want {
			t.Fatalf("busy = %v, want %v: %v grants at %v/s", !want, want, used, rate)
		}
	})
}

// feed tells doors of willing answers with as many in flight each.
func (d *doors) feed(n, inFlight int) {
	for range n {
		d.passed(inFlight)
	}
}

// Refusals with the same number in flight, and seldom that many well, are a bound on
// connections; it is asked anew after a while.
func TestDoors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		inFlight []int // at the refusals
		answers  int   // in between, most with fewer in flight than were refused
		well     int   // of them, those with as many
		want     int   // the bound
	}{
		{"the same", []int{9, 9, 9}, 50, 0, 8},
		{"it varies", []int{9, 10, 9, 10}, 50, 0, 0},
		{"as many went well", []int{9, 9, 9}, 50, 50, 0},
		{"as many went well too often", []int{9, 9, 9}, 50, 5, 0},
		{"one moment", []int{9, 9, 9}, 8, 0, 0},
		{"a near host", []int{2, 2, 2}, 50, 0, 0},
		{"an answer came before a refusal", []int{9, 8, 9, 9}, 50, 0, 8},
		{"answers came before the next was on its way", []int{9, 9, 9}, 50, 4, 8},
		{"the first was not the bound's", []int{9, 8, 8, 8, 8}, 50, 0, 7},
		{"one fewer again and again", []int{9, 8, 8, 9, 8, 8}, 50, 0, 0},
	} {
		var d doors
		learned := false
		for _, n := range tc.inFlight {
			require.False(t, learned, tc.name)
			d.feed(tc.answers-tc.well, tc.inFlight[0]-2)
			d.feed(tc.well, tc.inFlight[0])
			learned = d.refused(0, n)
		}
		require.Equal(t, tc.want > 0, learned, tc.name)
		require.Equal(t, tc.want, d.bound(clock.Instant(doorsFor)-1), tc.name)
		require.Zero(t, d.bound(clock.Instant(doorsFor)), tc.name)
	}
}

// Refused with fewer in flight than the bound allows, it was no such bound.
func TestDoorsAreDoubted(t *testing.T) {
	var d doors
	for range sameDoors {
		d.feed(50, 8)
		d.refused(0, 9)
	}
	require.Equal(t, 8, d.bound(0))
	d.feed(50, 6)
	require.False(t, d.refused(0, 7))
	require.Zero(t, d.bound(0))
}

// A host that takes so many at once, at whatever rate, gets no more.
func TestHostThatBoundsConnections(t *testing.T) {
	const most = 4
	r := newRig(t, stranger)
	host := func(clock.Instant) reply {
		if len(r.out) >= most {
			return reply{status: 429, latency: time.Millisecond} // a page takes longer
		}
		return reply{}
	}
	r.watch(2*time.Minute, host)
	c := r.watch(8*time.Minute, host)
	require.Equal(t, most, r.inFlightBound(r.now))
	require.Greater(t, c.admittedPer(8*time.Minute), 0.8*most/seconds(usualLatency))
	require.Less(t, c.refusedShare(), 0.001)
}

// A grant that comes late for want of processors is made up for, by a little and soon; one
// that comes seconds late had nothing to send.
func TestMissedRequestsAreMadeUpFor(t *testing.T) {
	const rate = 20 // 50 ms apart
	for _, tc := range []struct {
		gap  time.Duration
		want float64
	}{
		{50 * time.Millisecond, 0},
		{50*time.Millisecond + catchUp(rate), 0},
		{151 * time.Millisecond, 2},
		{900 * time.Millisecond, mostMissed},
		{2 * time.Second, 0},
	} {
		f := flight{lastSent: clock.Instant(time.Minute)}
		f.behind(f.lastSent.Add(tc.gap), rate)
		require.InDelta(t, tc.want, f.missed, 1e-5, tc.gap)
	}
	f := flight{missed: 1}
	for range 5 {
		f.lastSent = f.lastSent.Add(40 * time.Millisecond)
		f.behind(f.lastSent, rate)
	}
	require.InDelta(t, 0, f.missed, 1e-5, "five requests at 25 for 20 per second")
}

// Only who cruises makes up for lost time, and not where a block punishes what comes too
// close together.
func TestKeepUp(t *testing.T) {
	r := cruisingAt(t, 20)
	r.pass(150 * time.Millisecond)
	r.send()
	require.InDelta(t, 1.9, r.missed, 0.1)
	p := r.Plan(r.now)
	require.InDelta(t, makeUp*r.rate, p.Rate, 1e-9)

	for what, change := range map[string]func(){
		"in a search":              func() { r.mode = searching },
		"after a block":            func() { r.mode, r.blockGap = cruising, time.Minute },
		"just after a pause":       func() { r.blockGap, r.resumeAt = 0, r.now+1 },
		"as many out as there may": func() { r.resumeAt, r.out = 0, make([]pending, 100) },
	} {
		r = cruisingAt(t, 20)
		r.missed = mostMissed
		change()
		r.pass(150 * time.Millisecond)
		r.send()
		require.Zero(t, r.missed, what)
	}
}
