package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
)

// remembers is a host that admits n requests in any span, and refuses without an order.
func remembers(n int, span time.Duration) func(at clock.Instant) reply {
	var log []clock.Instant
	return func(at clock.Instant) reply {
		for len(log) > 0 && log[0] <= at.Add(-span) {
			log = log[1:]
		}
		if len(log) == n {
			return reply{status: 429}
		}
		log = append(log, at)
		return reply{}
	}
}

// A quota of ten minutes that the search used up in seconds: the pause is found out by few
// trials, and what was admitted before it is still known after it.
func TestLongWindowIsRemembered(t *testing.T) {
	r := newRig(t, stranger)
	host := remembers(600, 10*time.Minute)
	r.watch(13*time.Minute, host)
	require.NotEqual(t, held, r.mode)
	require.InEpsilon(t, 1, r.ceil, 0.15, "600 in ten minutes")
	require.Less(t, r.trials, uint32(25), "trials, where one in 15 s makes 40")
	c := r.watch(time.Hour, host)
	require.Greater(t, c.admittedPer(time.Hour), 0.85)
	require.Less(t, c.refusedShare(), 0.005)
}

// The wait for a trial grows with a pause that is a refusal, and begins anew after it.
func TestLongestWait(t *testing.T) {
	r := cruisingAt(t, 10)
	refuse := func(clock.Instant) reply { return reply{status: 429} }
	r.drive(r.now.Add(20*time.Minute), refuse)
	require.Equal(t, held, r.mode)
	require.Greater(t, r.wait, 2*time.Minute)
	require.LessOrEqual(t, r.wait, 20*time.Minute/longerBy)
	r.drive(r.till.Add(time.Second), willing)
	require.NotEqual(t, held, r.mode)
	r.ask(reply{status: 429})
	require.LessOrEqual(t, r.till.Sub(r.now), r.cfg.Breaker.OpenFor)
}

// A log bears a probe for as long as it has room, and gives the same bulge back later: who
// takes that for the limit is refused, falls below what he had, and begins again.
func TestBulgesOfALog(t *testing.T) {
	host := remembers(600, 10*time.Second)
	r := newRig(t, stranger)
	r.watch(3*time.Minute, host)
	c := r.watch(5*time.Minute, host)
	require.Greater(t, c.admittedPer(5*time.Minute), 0.9*60)
	require.Less(t, c.refusedShare(), 0.002)
}

// The search's bulge makes a short cycle, in which a log gives back what went out slowly.
// The climb out of that needs neither credit nor peace, but a credit that is not used up,
// and it ends at what the search was given.
func TestRegain(t *testing.T) {
	begin := func() *rig {
		r := cruisingAt(t, 10)
		r.prevAt = r.now.Add(-5 * time.Second)
		r.sentAt, r.cycle, r.next, r.bulge = r.now, 4, 0, 8
		require.Equal(t, nothing, r.judgeShort())
		require.InDelta(t, 1, r.ceil, 1e-9, "one more than 4 in 5 s")
		r.credit, r.quietTill, r.rate = creditRegain, forever, r.cruise()
		return r
	}
	rise := func(r *rig) {
		for range 100 {
			r.pass(time.Second)
			r.used()
			if r.climbs {
				r.climb(r.now)
			}
		}
	}
	r := begin()
	rise(r)
	require.InDelta(t, 8, r.ceil, 1e-9)
	require.False(t, r.climbs || r.regains, "no further")

	r = begin()
	r.credit = creditRegain - 0.1
	rise(r)
	require.InDelta(t, 1, r.ceil, 1e-9)

	r = begin()
	r.from, r.failRate, r.at, r.cycle = cruising, 6, r.now, 40
	require.Equal(t, measured, r.judge(r.now.Add(time.Millisecond)))
	require.False(t, r.climbs || r.regains)
	require.Zero(t, r.bulge, "a cycle of forty measured the ceiling")
}
