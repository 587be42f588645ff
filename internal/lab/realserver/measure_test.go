package realserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

// begin is when the logs of these tests begin.
var begin = time.Unix(1700000000, 0)

// hit is one that arrived so many milliseconds after begin.
func hit(ms, status int) realserver.Hit {
	return realserver.Hit{At: begin.Add(time.Duration(ms) * time.Millisecond), Status: status}
}

// told is a refusal with an order to wait that many seconds.
func told(ms, status, seconds int) realserver.Hit {
	h := hit(ms, status)
	h.RetryAfter = time.Duration(seconds) * time.Second
	return h
}

func TestMeasure(t *testing.T) {
	for _, tc := range []struct {
		name     string
		hits     []realserver.Hit
		from, to int // seconds
		want     realserver.Figures
	}{
		{"nothing", nil, 0, 10, realserver.Figures{}},
		{
			"half of 1/s",
			[]realserver.Hit{hit(0, 200), hit(2000, 200), hit(4000, 200), hit(6000, 204), hit(8000, 200)},
			0, 10,
			realserver.Figures{Requests: 5, Used: 0.5},
		},
		{
			"a page that does not exist is let through",
			[]realserver.Hit{hit(0, 404), hit(2000, 200), hit(4000, 429)},
			0, 4,
			realserver.Figures{Requests: 2, Used: 0.5},
		},
		{
			"the span is half open",
			[]realserver.Hit{hit(0, 200), hit(5000, 200), hit(10000, 200)},
			5, 10,
			realserver.Figures{Requests: 1, Used: 0.2},
		},
		{
			"a refusal for a moment is no block",
			[]realserver.Hit{hit(0, 200), hit(100, 429), hit(2099, 200)},
			0, 10,
			realserver.Figures{Requests: 3, Refused: 1, Used: 0.2},
		},
		{
			"one for two seconds is",
			[]realserver.Hit{hit(0, 200), hit(100, 403), hit(1000, 403), hit(2100, 200)},
			0, 10,
			realserver.Figures{Requests: 4, Refused: 2, Blocks: 1, Used: 0.2},
		},
		{
			"two of them, the last still shut",
			[]realserver.Hit{hit(0, 200), hit(100, 503), hit(3000, 200), hit(7000, 503)},
			0, 10,
			realserver.Figures{Requests: 4, Refused: 2, Blocks: 2, Used: 0.2},
		},
		{
			"a door never seen open is not shut",
			[]realserver.Hit{hit(0, 503), hit(5000, 200)},
			0, 10,
			realserver.Figures{Requests: 2, Refused: 1, Used: 0.1},
		},
		{
			"inside a Retry-After",
			[]realserver.Hit{hit(0, 200), told(1000, 429, 3), hit(1200, 200), hit(1201, 200), hit(3999, 200), hit(4000, 200)},
			0, 10,
			realserver.Figures{Requests: 6, Refused: 1, Inside: 2, Used: 0.5},
		},
		{
			"one that runs into the span",
			[]realserver.Hit{hit(0, 200), told(1000, 503, 9), hit(8000, 200)},
			5, 10,
			realserver.Figures{Requests: 1, Inside: 1, Blocks: 1, Used: 0.2},
		},
		{
			"that of a good answer orders nothing",
			[]realserver.Hit{told(0, 200, 9), hit(1000, 200)},
			0, 10,
			realserver.Figures{Requests: 2, Used: 0.2},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
			require.Equal(t, tc.want, realserver.Measure(tc.hits, at(tc.from), at(tc.to), 1))
		})
	}
}

// A refusal that took long was known only when it was sent.
func TestMeasureSlowRefusal(t *testing.T) {
	slow := told(0, 429, 2)
	slow.Took = time.Second
	hits := []realserver.Hit{slow, hit(900, 200), hit(1201, 200), hit(2500, 200), hit(3000, 200)}
	require.Equal(t, 2, realserver.Measure(hits, begin, begin.Add(10*time.Second), 1).Inside)
}

func TestRefusedShare(t *testing.T) {
	require.Zero(t, realserver.Figures{}.RefusedShare())
	require.InDelta(t, 0.25, realserver.Figures{Requests: 8, Refused: 2}.RefusedShare(), 1e-12)
}
