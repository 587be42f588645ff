package main

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every candidate lets requests in and says so in the same headers; otherwise it would
// not be like beside like.
func TestCandidates(t *testing.T) {
	b := &bench{ctx: context.Background(), rounds: 1, cell: time.Millisecond}
	seen := map[string]bool{}
	for _, g := range groups() {
		for _, c := range g.candidates {
			if seen[g.name+c.name] {
				continue
			}
			seen[g.name+c.name] = true
			t.Run(g.name+"/"+c.name, func(t *testing.T) {
				if g.redis && b.redis == "" {
					b.redis = server(t).addr
				}
				h, end, err := c.open(b)
				require.NoError(t, err)
				defer end()
				for range 3 {
					w := httptest.NewRecorder()
					r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
					r.Header.Set(keyHeader, "ann")
					h.ServeHTTP(w, r)
					require.Equal(t, http.StatusOK, w.Code)
					if c.name != "no limit" && !strings.HasSuffix(c.name, "ours, three calls") {
						require.NotEmpty(t, w.Header().Get("X-RateLimit-Limit"))
						require.NotEmpty(t, w.Header().Get("X-RateLimit-Remaining"))
						require.NotEmpty(t, w.Header().Get("X-RateLimit-Reset"))
					}
				}
			})
		}
	}
}

// shared is the server of all tests.
var shared *redisServer

func TestMain(m *testing.M) {
	code := m.Run()
	if shared != nil {
		shared.stop()
	}
	os.Exit(code)
}

func server(t *testing.T) *redisServer {
	t.Helper()
	if shared != nil {
		return shared
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is not installed: run make servers")
		}
		t.Skip("NOT RUN: redis-server is not installed: run make servers")
	}
	s, err := startRedis(context.Background())
	require.NoError(t, err)
	shared = s
	return s
}

// A load counts what it sends, over connections too, and tells when a request was not
// let in.
func TestLoads(t *testing.T) {
	served := make(chan string, 1)
	count := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case served <- r.Header.Get(keyHeader):
		default:
		}
		w.Header().Set("X-Other", "1")
	})
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	for name, open := range map[string]func(handler, int, int) (load, error){
		"in process": inProcess, "many": manyAtOnce, "loopback": overLoopback,
	} {
		t.Run(name, func(t *testing.T) {
			l, err := open(handler{Handler: count}, 2, 10)
			require.NoError(t, err)
			defer l.close()
			n, took, err := l.run(time.Millisecond)
			require.NoError(t, err)
			require.Positive(t, took)
			require.GreaterOrEqual(t, n, int64(2*batch))
			require.Zero(t, n%batch)
			require.Contains(t, <-served, "0123456789abcdef-")

			l, err = open(handler{Handler: refuse}, 1, 1)
			require.NoError(t, err)
			defer l.close()
			_, err = l.measure(time.Millisecond)
			require.ErrorContains(t, err, "429")
		})
	}
}

// The yardstick is the other library that adds least, not the one that is fastest in one
// round, and a ratio is the median of those of the rounds.
func TestTable(t *testing.T) {
	of := func(ns ...float64) (s series) {
		for _, n := range ns {
			s = append(s, sample{ns: n, allocs: 3, trips: n / 10_000})
		}
		return s
	}
	g := &group{name: "g", what: "a group", unit: "proc", candidates: []candidate{
		{name: "no limit"},
		{name: "slow"},
		{name: "fast"},
		{name: "ours", ours: true, goal: 0.6},
		{name: "ours too", ours: true, goal: 0.6, trips: true, tripsGoal: 0.05},
	}}
	tab := table{group: g, columns: []column{{width: 2, of: []series{
		of(10, 10, 20), of(10, 510, 520), of(110, 210, 320), of(60, 110, 170), of(210, 210, 320),
	}}}}
	require.Equal(t, 2, tab.yardstick(&tab.columns[0]))
	require.Equal(t, `
**g**: a group

| | added, 2 procs | ratio | trips a request | allocations | goal |
|---|--:|--:|--:|--:|--:|
| no limit | (10 ns) | | 0.0010 | 3 |  |
| slow | 500 ns | 1.67 | 0.0510 | 3 |  |
| fast | 200 ns | 1.00 | 0.0210 | 3 |  |
| ours | 100 ns | 0.50 | 0.0110 | 3 | <= 0.60 |
| ours too | 200 ns | 1.00 | 0.0210 (<= 0.05) | 3 | <= 0.60, missed |
`, tab.markdown())
	g.yardstick = "slow"
	require.Equal(t, 1, tab.yardstick(&tab.columns[0]))
}

func TestMedian(t *testing.T) {
	c := column{of: []series{make(series, 4)}}
	require.InDelta(t, 2.5, c.median(func(round int) float64 { return []float64{4, 1, 3, 2}[round] }), 0)
	c.of[0] = c.of[0][:3]
	require.InDelta(t, 2, c.median(func(round int) float64 { return []float64{math.Inf(1), 1, 2}[round] }), 0)
}
