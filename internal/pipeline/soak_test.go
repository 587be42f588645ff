package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/records/sink"
)

// An hour of a crawl of hosts that fail, refuse and forbid, ended and begun anew every few
// minutes, with a frontier of which little is in memory: every URL is recorded once.
func TestSoakWithRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perHost, nh = 120, 12
		rnd := rand.New(rand.NewPCG(1, 9))
		hosts := map[string]http.Handler{}
		for i := range nh {
			hosts[fmt.Sprintf("h%d.test", i)] = soakHost(rnd.Uint64(), i, nh, perHost)
		}
		net := fetchtest.Serve(t, hosts)
		out, dir := &durableSink{}, t.TempDir()
		begin, runs := time.Now(), 0
		for ; ; runs++ {
			state, err := disk.Open(dir, disk.Config{Key: 1})
			require.NoError(t, err)
			var kept int64
			for _, p := range state.Positions() {
				kept = p.Records
			}
			out.records = out.records[:kept]
			w := newWorldOn(t, fetch.Config{DialContext: net.DialContext, Timeout: 10 * time.Second})
			w.State = &State{Storage: state, Progress: state, Left: state.Left(), Guesses: state}
			w.Key, w.Sinks = 1, []sink.Sink{out}
			w.Resident, w.MaxHosts, w.Concurrency, w.MaxBlocked = 30, 5, 8, time.Hour
			for i := range nh {
				w.Scope.AddSeed(parse(t, fmt.Sprintf("http://h%d.test/", i)))
			}
			p := w.build(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(rnd.Int64N(int64(4*time.Minute))))
			if rnd.IntN(3) == 0 {
				time.AfterFunc(time.Minute, p.Stop)
			}
			err = w.run(ctx, t, p, "http://h0.test/")
			cancel()
			w.client.Close()
			require.NoError(t, state.Close())
			if end, _ := p.End(); end == EndDone {
				break
			}
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			require.Less(t, runs, 1000, "it never ends")
		}
		require.Len(t, out.byURL(t), nh*(perHost+1))
		require.Greater(t, time.Since(begin), 45*time.Minute, "it was too short to say anything")
		require.Greater(t, runs, 10)
	})
}

// soakHost serves a page with links to all others and the next host; now and then it fails
// or refuses, and every seventh host answers slowly.
func soakHost(seed uint64, i, nh, perHost int) http.Handler {
	rnd := rand.New(rand.NewPCG(seed, 1))
	busy := make(chan struct{}, 1) // guards rnd
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy <- struct{}{}
		luck, took := rnd.Float64(), time.Duration(rnd.Int64N(int64(300*time.Millisecond)))
		<-busy
		if i%7 == 6 {
			took *= 10
		}
		time.Sleep(took)
		switch {
		case r.URL.Path == "/robots.txt":
			fmt.Fprintf(w, "User-agent: *\nDisallow: /9\nCrawl-delay: %d\n", i%4*5)
		case luck < 0.03:
			w.WriteHeader(http.StatusBadGateway)
		case luck < 0.06:
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
		case luck < 0.07:
			panic(http.ErrAbortHandler)
		default:
			html(w, links(perHost)+fmt.Sprintf("<a href=http://h%d.test/>", (i+1)%nh))
		}
	})
}
