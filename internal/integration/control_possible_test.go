package integration_test

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

// The prober finds what a server has to give by trying: it asks a server of its own
// beside the crawl's at a steady rate, sees whether that is borne, and halves what is left
// between the highest rate that was and the lowest that was not. It need not be polite, and
// it is told when a server has enough of it; what it shows is how much a client can have
// that knows the rate and has the same timers.
const (
	// settling is how long a rate is asked for before it is judged: longer than any window
	// here, so that nothing is left of what came before.
	settling = 12 * time.Second
	// judging is how long it is judged: two of the longest windows.
	judging = 22 * time.Second
	// bearable is the share of refusals at which a rate is still borne.
	bearable = 0.005
	// coming is how many requests it lets wait for their answers, more than any queue here holds.
	coming = 64
)

// prober asks a server of one kind.
type prober struct {
	kind   realserver.Kind
	server *realserver.Server
	client *http.Client
	asked  int

	mu      sync.Mutex // guards what follows
	refused int
	till    time.Time // told, or known, to be refused until then
}

// possible is the most requests per second that a client can have of a server of the kind,
// to a few thousandths, if it has four minutes to find it. If it bore none that was tried, that
// is zero. What counts is what was admitted: on a busy machine, fewer than were meant to go out;
// and no more than the rule gives for ever, which a queue takes for as long as is judged.
func possible(t *testing.T, k realserver.Kind, server *realserver.Server, within time.Duration) float64 {
	c := &prober{kind: k, server: server, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: coming}}}
	defer c.server.Stop()
	defer c.client.CloseIdleConnections()
	end := time.Now().Add(within)
	const atOnce = 2 * time.Second // to empty a bucket
	longest := atOnce + settling + judging
	lo, hi, most := 0.0, 1.03*k.Available, 0.0
	for r := 0.985 * k.Available; time.Until(end) > longest; {
		if had, borne := c.bears(t, r); borne {
			lo, most = r, max(most, had)
		} else {
			hi = r
		}
		if r = (lo + hi) / 2; lo == 0 {
			r = 0.93 * hi
		}
	}
	return min(most, k.Available)
}

// bears reports whether the server bears to be asked at that rate by who has used up
// whatever it had saved for them, and how many per second it then admitted.
func (c *prober) bears(t *testing.T, rate float64) (had float64, borne bool) {
	c.ask(t, 2*float64(c.kind.AtOnce)+10*c.kind.Nominal, 2*time.Second, true)
	c.ask(t, rate, settling, false)
	asked, refused := c.ask(t, rate, judging, false)
	return float64(asked-refused) / judging.Seconds(), float64(refused) <= bearable*float64(asked)
}

// ask asks at that rate for so long, or until the first refusal, and says how often and
// how often it was refused. While the server refuses for certain it waits, and for as long
// more goes on.
func (c *prober) ask(t *testing.T, rate float64, d time.Duration, once bool) (asked, refused int) {
	ctx, cancel := context.WithTimeout(t.Context(), d+time.Minute)
	defer cancel()
	var out sync.WaitGroup
	_, before := c.told()
	gap := time.Duration(float64(time.Second) / rate)
	slots := make(chan struct{}, min(coming, cmp.Or(c.kind.InFlight, coming)))
	end := time.Now().Add(d)
	for next := time.Now(); next.Before(end) && ctx.Err() == nil; { // blocks that are renewed might go on for ever
		till, now := c.told()
		if once && now > before {
			break
		}
		if wait := time.Until(till); wait > 0 {
			next, end = till, end.Add(wait)
		}
		time.Sleep(time.Until(next))
		next = later(next, time.Now().Add(-time.Millisecond)).Add(gap) // as much as the crawl's pacing makes up
		slots <- struct{}{}
		next = later(next, time.Now()) // of one that had to wait for a place
		url := c.server.Page(c.asked)
		c.asked++
		asked++
		out.Go(func() {
			defer func() { <-slots }()
			c.get(ctx, t, url)
		})
	}
	out.Wait()
	_, after := c.told()
	return asked, after - before
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c *prober) told() (till time.Time, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.till, c.refused
}

// get asks for one page. Who locks out does so for ten seconds from the last request on.
func (c *prober) get(ctx context.Context, t *testing.T, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if !assert.NoError(t, err) {
		return
	}
	resp, err := c.client.Do(req)
	if !assert.NoError(t, err) {
		return
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // zero without one
	if resp.StatusCode == http.StatusForbidden {
		seconds = 11
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
	c.till = later(c.till, time.Now().Add(time.Duration(seconds)*time.Second))
}
