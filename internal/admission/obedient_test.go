package admission

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestObedientClient has a client do what the headers say, in virtual time: it spreads what
// remains over the reset, and with nothing left waits for it. It gets what the plan grants, and
// is not refused.
func TestObedientClient(t *testing.T) {
	for _, kind := range Kinds() {
		for _, permits := range []int64{1, 2, 3, 5, 7, 10, 30, 100, 1000} {
			for _, window := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 7 * time.Second, 10 * time.Second, time.Minute, time.Hour} {
				for _, begin := range []time.Duration{0, 300 * time.Millisecond, window / 3} {
					p := Plan{Name: "p", Kind: kind, Capacity: permits, Window: window}
					if kind == KindTokenBucket {
						p.Window, p.TokensPerSecond = 0, float64(permits)/window.Seconds()
					}
					p, err := p.Settle()
					require.NoError(t, err)
					used, refused := obey(t, p, begin)
					name := fmt.Sprintf("%s %d per %v from %v: %.3f used, %.4f refused", kind, permits, window, begin, used, refused)
					if used < 0.95 || refused > 0.002 {
						t.Error(name)
					}
				}
			}
		}
	}
}

// obey is the share of what a plan grants in the long run that an obedient client used, and of
// its requests that were refused.
func obey(t *testing.T, p Plan, begin time.Duration) (used, refused float64) {
	t.Helper()
	reg, err := NewRegistry(p)
	require.NoError(t, err)
	rule := (&Rule{Name: "r", Plans: []string{p.Name}}).terms(reg.current())
	_, window := p.PerWindow()
	now := Micros(1_800_000_000_000_000) + Micros(begin.Microseconds())
	state := p.Fresh(now)
	// What a new client finds comes on top of the long run: it is not counted.
	warm, end := now+Micros(5*window.Microseconds()), now+Micros(45*window.Microseconds())
	granted, asked, denied := 0, 0, 0
	for at := float64(now); at < float64(end); {
		now = Micros(at)
		var res Result
		state, res = p.Take(state, now, 1)
		h := http.Header{}
		HeadersLegacy.tell(h, rule, &res, nil)
		remaining, err := strconv.ParseFloat(h.Get("X-RateLimit-Remaining"), 64)
		require.NoError(t, err)
		reset, err := strconv.ParseFloat(h.Get("X-RateLimit-Reset"), 64)
		require.NoError(t, err)
		if now >= warm {
			asked++
			if res.Allowed {
				granted++
			} else {
				denied++
			}
		}
		if at += reset * 1e6 / max(1, remaining); reset == 0 {
			at++ // as soon as it can
		}
	}
	return float64(granted) / (float64(p.Capacity) * 40), float64(denied) / float64(asked)
}
