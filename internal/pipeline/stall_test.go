package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/records/sink"
)

// However a crawl is ended, with a state that stalls for up to a minute at a time, it ends,
// leaves nothing running, and goes on from there.
func TestEndsWithAStateThatStalls(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { stallWorld(t, seed) }) })
	}
}

// What a failure cost a URL is durable when nothing else happens for an hour.
func TestTriesAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(map[bool]int{true: http.StatusNotFound, false: http.StatusBadGateway}[r.URL.Path == "/robots.txt"])
		})})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		state := newJournal(1)
		w.State, w.Backoff.Base, w.Backoff.Max = state.state(), 100*time.Hour, 100*time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, w.run(ctx, t, w.build(t), "http://h.test/"), context.DeadlineExceeded)
		synctest.Wait()
		next, _ := state.reopen()
		require.EqualValues(t, 1, next.URLs[1].Attempt)
	})
}

func stallWorld(t *testing.T, seed uint64) {
	const perHost, nh = 20, 3
	rnd := rand.New(rand.NewPCG(seed, 5))
	hosts := map[string]http.Handler{}
	for i := range nh {
		hosts[fmt.Sprintf("h%d.test", i)] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.Redirect(rw, r, fmt.Sprintf("http://h%d.test/rules", (i+2)%nh), http.StatusMovedPermanently)
				return
			}
			html(rw, links(perHost)+fmt.Sprintf("<a href=http://h%d.test/>", (i+1)%nh))
		})
	}
	net := fetchtest.Serve(t, hosts)
	state, outs := newJournal(seed), []*durableSink{{}, {}}
	state.slow = time.Minute
	for run := 0; ; run++ {
		require.Less(t, run, 500, "it never ends")
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext, Timeout: 10 * time.Second})
		w.State, w.Sinks = state.state(), []sink.Sink{outs[0], outs[1]}
		w.Concurrency, w.Resident, w.MaxHosts = 1+rnd.IntN(8), 1+rnd.IntN(10), 1+rnd.IntN(nh)
		w.limits.InitialRPS, w.limits.MaxRPS = 20, 20
		for i := range nh {
			w.Scope.AddSeed(parse(t, fmt.Sprintf("http://h%d.test/", i)))
		}
		p := w.build(t)
		ctx, cancel := context.WithCancel(t.Context())
		full := errors.New("disk full")
		end := []func(){
			p.Stop, cancel, func() { state.fail(full) }, func() { outs[rnd.IntN(2)].breakOff(full) }, func() {},
			func() { p.Pause(); time.AfterFunc(time.Minute, func() { p.Unpause() }) },
		}[rnd.IntN(6)]
		timer := time.AfterFunc(time.Duration(rnd.Int64N(int64(10*time.Minute))), end)
		err := w.run(ctx, t, p, "http://h0.test/")
		timer.Stop()
		cancel()
		w.client.Close()
		synctest.Wait()
		if how, _ := p.End(); err == nil && how == EndDone {
			for _, out := range outs {
				require.Len(t, out.byURL(t), nh*(perHost+1))
			}
			return
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			require.ErrorIs(t, err, full)
		}
		time.Sleep(2 * time.Minute) // what the state was told is durable then, or never is
		var kept int64
		state, kept = state.reopen()
		for _, out := range outs {
			out.records, out.fail = out.records[:kept], nil
		}
	}
}
