package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// fickle forecasts that a grant is due and then denies it, until it does not.
type fickle struct {
	client
	denials int
	asked   []clock.Instant
}

func (c *fickle) ready(now clock.Instant) clock.Instant { return now }

func (c *fickle) acquire(now clock.Instant) (ratelimit.Permit, bool) {
	c.asked = append(c.asked, now)
	return unbound{}, len(c.asked) > c.denials
}

func (c *fickle) learn(clock.Instant, *ratelimit.Feedback) {}

// A run goes on where forecast and engine disagree: asked again at the same instant,
// the engine would say the same, and the run would never end.
func TestDeniedForecastsAreAskedAgain(t *testing.T) {
	sc := Scenario{Duration: 2 * time.Minute, MaxInFlight: 1, Timeout: time.Second, Capacity: flat(1), Link: Link{RTT: time.Second}}
	c := &fickle{denials: 3}
	d := &driver{
		Simulation: Simulation{Scenario: sc}, end: at(time.Second), sites: []*site{{client: c, server: &pages{rnd: source()}}},
		way: way{Link: sc.Link, rnd: source()}, meter: newMeter(&sc, 1),
	}
	require.NoError(t, d.run(t.Context()))
	require.Equal(t, []clock.Instant{0, at(ms), at(2 * ms), at(3 * ms)}, c.asked)
}

// The oracle keeps its owner's ceiling and obeys orders; it knows all else.
func TestOracleObeys(t *testing.T) {
	c := &oracle{model: &pages{rnd: source()}, gap: 100 * ms}
	var sent []clock.Instant
	send := func(now clock.Instant) {
		_, ok := c.acquire(now)
		require.True(t, ok)
		sent = append(sent, now)
	}
	send(0)
	_, ok := c.acquire(at(100*ms - 1))
	require.False(t, ok)
	send(c.ready(at(ms)))
	c.learn(at(200*ms), &ratelimit.Feedback{StatusCode: tooMany, RetryAfter: 5 * time.Second})
	c.learn(at(300*ms), &ratelimit.Feedback{StatusCode: tooMany, RetryAfter: time.Second})
	send(c.ready(at(300 * ms)))
	require.Equal(t, []clock.Instant{0, at(100 * ms), at(5200 * ms)}, sent, "the later end holds")
	send(c.ready(at(10 * time.Second))) // what was not used is lost
	require.Equal(t, at(10*time.Second+90*ms), c.ready(at(10*time.Second)))
}

// A scenario's ceiling lowers the configuration's, and what lies above it follows.
func TestScenarioLowersTheCeiling(t *testing.T) {
	cfg := Config(aimd)
	cfg.InitialRPS, cfg.MinRPS, cfg.MaxRPS = 50, 20, 100
	r, arrivals := script(t, Scenario{MaxRPS: 4, Capacity: flat(10)}, cfg, admitted())
	require.InDelta(t, 240, r.First.Capacity, 1e-9, "what the client may not use is no capacity")
	require.InDelta(t, 4*120, len(arrivals), 1)
	cfg.MaxRPS = 0
	cfg.InitialRPS, cfg.MinRPS = 1, 0.1
	r, _ = script(t, Scenario{Capacity: flat(1000)}, cfg, admitted())
	require.InDelta(t, 60*ratelimit.DefaultConfig().MaxRPS, r.First.Capacity, 1e-9)
}

// At exact instants, since a pause that begins with its second is easily missed.
func TestOffersAtExactInstants(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		offer Offer
		now   time.Duration
		taken int
		want  time.Duration
	}{
		"all at once":            {Offer{}, 3 * s, 99, 3 * s},
		"the next of a trickle":  {Offer{Rate: 2, Until: 9 * s}, 1 * s, 3, 1500 * ms},
		"one that waits":         {Offer{Rate: 2, Until: 9 * s}, 4 * s, 3, 4 * s},
		"the end of the trickle": {Offer{Rate: 2, Until: 9 * s}, 1 * s, 99, 9 * s},
		"after it":               {Offer{Rate: 2, Until: 9 * s}, 9 * s, 99, 9 * s},
		"in a pulse":             {Offer{On: 3 * s, Off: 7 * s}, 3*s - 1, 0, 3*s - 1},
		"in a pause":             {Offer{On: 3 * s, Off: 7 * s}, 3 * s, 0, 10 * s},
		"at the pause's end":     {Offer{On: 3 * s, Off: 7 * s}, 10 * s, 0, 10 * s},
		"a trickle in pulses":    {Offer{Rate: 0.2, Until: 60 * s, On: 3 * s, Off: 7 * s}, 1 * s, 1, 10 * s},
	} {
		require.Equal(t, c.want, time.Duration(c.offer.next(at(c.now), c.taken)), name)
	}
}
