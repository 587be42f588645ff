package steer

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/control/controltest"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// The host's own quota may ask for less than the user's floor.
var anyOrder = controltest.AnyOrder(Maker(nil), func(rate, _, ceiling float64) bool { return rate > ceiling })

func TestAnyOrder(t *testing.T) { rapid.Check(t, anyOrder) }

func FuzzAnyOrder(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyOrder)) }

func TestSameHistorySamePlan(t *testing.T) { controltest.SameHistorySamePlan(t, Maker(nil)) }

// A crawl may keep a million hosts, so the state of each has to be small.
func TestHostsAreSmall(t *testing.T) {
	t.Logf("a host takes %d bytes, one that has refused %d more", unsafe.Sizeof(Steer{}), unsafe.Sizeof(pause{}))
	require.LessOrEqual(t, unsafe.Sizeof(Steer{}), uintptr(320))
}

// A search is faster while the host tells that it grants more.
func TestSearchFollowsAToldQuota(t *testing.T) {
	for told, took := range map[bool]time.Duration{false: 5 * time.Second, true: 2500 * time.Millisecond} {
		r := newRig(t, control.Host{Start: 1, Floor: .1, Ceiling: 100})
		var q header.Quota
		if told {
			q = header.Quota{Limit: 200, Remaining: 200, Reset: 20 * time.Second, Window: 20 * time.Second}
		}
		for r.Plan(r.now).Rate < 9 {
			r.Sent(r.now, 1)
			r.now = r.now.Add(10 * time.Millisecond)
			r.Observe(r.now, control.Observation{
				SentAt: r.now, Class: outcome.OK, Latency: time.Millisecond, InFlight: 1, Floor: .1, Ceiling: 100, Window: r.w, Quota: q,
			})
			r.now = r.now.Add(seconds(1/r.Plan(r.now).Rate) - 10*time.Millisecond)
			q.Remaining--
		}
		require.InDelta(t, took.Seconds(), r.now.Sub(0).Seconds(), .5, "told: %v", told)
	}
}

// People are told the limit of a host: what it refused of late, or the average that it tells if that binds.
func TestLimitIsTold(t *testing.T) {
	r := newRig(t, control.Host{Start: 1, Floor: .1, Ceiling: 100})
	r.run(5*time.Second, 200)
	require.Zero(t, r.Limit(r.now), "nothing was refused")
	at := r.Plan(r.now).Rate
	r.ask(429)
	r.ask(200)
	require.InEpsilon(t, at, r.Limit(r.now), .1)
	r.Observe(r.now, control.Observation{
		SentAt: r.now, Class: outcome.OK, Latency: time.Millisecond, InFlight: 1, Floor: .1, Ceiling: 100, Window: r.w,
		Quota: header.Quota{Limit: 10, Remaining: 9, Reset: 9 * time.Second, Window: 10 * time.Second},
	})
	require.InDelta(t, 1, r.Limit(r.now), toldMargin+1e-9)
}
