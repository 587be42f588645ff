package crawlers_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

// When the application behind a limiter is away, from the first hit on.
const (
	awayFrom = 80 * time.Second
	awayTo   = 100 * time.Second
)

// outage is how a client lives with a limiter whose application is away for a while, from the limiter's log.
type outage struct {
	use     [4]float64 // of what is available: in the first minute, from then on until it is away, in the third minute, and in the fourth
	refused float64    // share of requests after the first minute but for those while it was away
	back    float64    // seconds after its end until the rate before is back, to 90 %, over five seconds; infinite if it never was
	trials  float64    // requests in two seconds while it was away, but for the first four, in which requests are on their way
}

// String is a cell of a table.
func (o outage) String() string {
	back := "never"
	if !math.IsInf(o.back, 1) {
		back = fmt.Sprintf("%.1f s", o.back)
	}
	return fmt.Sprintf("%.1f; %.1f, %.1f, %.1f; %.2f; %s, %.1f", 100*o.use[0], 100*o.use[1], 100*o.use[2], 100*o.use[3], 100*o.refused, back, o.trials)
}

// outageOf measures an outage that began and ended at these instants.
func outageOf(hits []realserver.Hit, from, to time.Time, available float64) (o outage) {
	begin := hits[0].At
	second := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	spans := [][2]time.Time{{begin, second(60)}, {second(60), from}, {second(120), second(180)}, {second(180), second(240)}}
	for i, s := range spans {
		o.use[i] = realserver.Measure(hits, s[0], s[1], available).Used
	}
	before, after := realserver.Measure(hits, second(60), from, available), realserver.Measure(hits, to, second(240), available)
	o.refused = float64(before.Refused+after.Refused) / max(float64(before.Requests+after.Requests), 1)

	const span, late = 5 * time.Second, 4 * time.Second
	was := realserver.Measure(hits, second(40), from, 1).Used
	o.back = math.Inf(1)
	for at := to; at.Add(span).Before(second(240)); at = at.Add(100 * time.Millisecond) {
		if f := realserver.Measure(hits, at, at.Add(span), 1); f.Used*span.Seconds() >= .9*was*span.Seconds()-1 {
			o.back = at.Sub(to).Seconds()
			break
		}
	}
	o.trials = 2 * float64(realserver.Measure(hits, from.Add(late), to, 1).Requests) / to.Sub(from.Add(late)).Seconds()
	return o
}

// TestOutageOf holds the figures to a log that can be counted by hand.
func TestOutageOf(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	var hits []realserver.Hit
	for n := range 480 { // two a second; from 80 s to 100 s one in four seconds, which fails, and one a second until 110 s
		at := time.Duration(n) * time.Second / 2
		h := realserver.Hit{At: begin.Add(at), Status: 200}
		switch {
		case at >= awayFrom && at < awayTo:
			if h.Status = 503; n%8 != 0 {
				continue
			}
		case at >= awayTo && at < awayTo+10*time.Second && n%2 == 1:
			continue
		case at >= 3*time.Minute && n%4 == 0:
			h.Status = 429
		}
		hits = append(hits, h)
	}
	o := outageOf(hits, begin.Add(awayFrom), begin.Add(awayTo), 2)
	require.Equal(t, "100.0; 100.0, 100.0, 75.0; 9.68; 7.6 s, 0.5", o.String())
	o.back = math.Inf(1)
	require.Contains(t, o.String(), "never")
}
