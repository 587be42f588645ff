package realserver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

func TestParseHits(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Unix(1700000000, 0).Add(d) }
	for _, tc := range []struct {
		name, line string
		want       realserver.Hit
	}{
		{
			"milliseconds after the point", "at=1700000000.123 status=200 after=- request=GET /a?q=1 HTTP/1.1",
			realserver.Hit{At: at(123 * time.Millisecond), Status: 200, URI: "/a?q=1"},
		},
		{
			"microseconds", "at=1700000000.000456 status=429 after=10 request=GET /a",
			realserver.Hit{At: at(456 * time.Microsecond), Status: 429, RetryAfter: 10 * time.Second, URI: "/a"},
		},
		{
			"whole milliseconds", "at_ms=1700000000123 status=403 after= request=GET /a HTTP/1.1",
			realserver.Hit{At: at(123 * time.Millisecond), Status: 403, URI: "/a"},
		},
		{
			"an end is no arrival", "end=1700000002.500 took=2.250 status=503 after=1 request=GET /a HTTP/1.1",
			realserver.Hit{At: at(250 * time.Millisecond), Took: 2250 * time.Millisecond, Status: 503, RetryAfter: time.Second, URI: "/a"},
		},
		{
			"a request line is the client's", "at=1700000000 status=400 after=- request=\\x16\\x03",
			realserver.Hit{At: at(0), Status: 400},
		},
		{
			"and may look like fields", "at=1700000000 status=200 after=- request=GET /a?b=c&x=%20request=1 HTTP/1.1",
			realserver.Hit{At: at(0), Status: 200, URI: "/a?b=c&x=%20request=1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := realserver.ParseHits(strings.NewReader(tc.line + "\n"))
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.True(t, tc.want.At.Equal(got[0].At), "%v", got[0].At)
			got[0].At = tc.want.At // the zone is no matter
			require.Equal(t, tc.want, got[0])
		})
	}
}

func TestParseHitsOrders(t *testing.T) {
	got, err := realserver.ParseHits(strings.NewReader("" +
		"end=1700000009.000 took=0.000 status=201 after=- request=GET /second\n" +
		"end=1700000009.100 took=5.000 status=202 after=- request=GET /first\n"))
	require.NoError(t, err)
	require.Equal(t, "/first", got[0].URI)
	require.Equal(t, "/second", got[1].URI)
}

func TestParseHitsRejects(t *testing.T) {
	for _, line := range []string{
		"", "at=1700000000 status=200", "status=200 after=- request=GET /", "at=- status=200 after=- request=GET /", "at=1 status=OK after=- request=GET /",
		"at=99999999999999999999 status=200 after=- request=GET /", "at=1 status=99999999999999999999 after=- request=GET /",
	} {
		_, err := realserver.ParseHits(strings.NewReader("at=1 status=200 after=- request=GET /\n" + line + "\n"))
		require.ErrorContains(t, err, "log line 2", line)
	}
}

var begin = time.Unix(1700000000, 0)

func hit(ms, status int) realserver.Hit {
	return realserver.Hit{At: begin.Add(time.Duration(ms) * time.Millisecond), Status: status}
}

func told(ms, status, seconds int) realserver.Hit {
	h := hit(ms, status)
	h.RetryAfter = time.Duration(seconds) * time.Second
	return h
}

// logged are hits, each as MILLISECONDS:STATUS or, with an order to wait, MILLISECONDS:STATUS:SECONDS.
func logged(t *testing.T, text string) (hits []realserver.Hit) {
	t.Helper()
	for word := range strings.FieldsSeq(text) {
		var ms, status, seconds int
		_, err := fmt.Sscanf(strings.ReplaceAll(word+":0:0", ":", " "), "%d %d %d", &ms, &status, &seconds)
		require.NoError(t, err)
		hits = append(hits, told(ms, status, seconds))
	}
	return hits
}

func TestMeasure(t *testing.T) {
	for _, tc := range []struct {
		name, hits string
		from, to   int // seconds
		want       realserver.Figures
	}{
		{"nothing", "", 0, 10, realserver.Figures{}},
		{"half of 1/s", "0:200 2000:200 4000:200 6000:204 8000:200", 0, 10, realserver.Figures{Requests: 5, Used: 0.5}},
		{"a page that does not exist is let through", "0:404 2000:200 4000:429", 0, 4, realserver.Figures{Requests: 2, Used: 0.5}},
		{"the span is half open", "0:200 5000:200 10000:200", 5, 10, realserver.Figures{Requests: 1, Used: 0.2}},
		{"a refusal for a moment is no block", "0:200 100:429 2099:200", 0, 10, realserver.Figures{Requests: 3, Refused: 1, Used: 0.2}},
		{"one for two seconds is", "0:200 100:403 1000:403 2100:200", 0, 10, realserver.Figures{Requests: 4, Refused: 2, Blocks: 1, Used: 0.2}},
		{"two of them, the last not over", "0:200 100:503 3000:200 7000:503", 0, 10, realserver.Figures{Requests: 4, Refused: 2, Blocks: 2, Used: 0.2}},
		{"what never admitted does not block", "0:503 5000:200", 0, 10, realserver.Figures{Requests: 2, Refused: 1, Used: 0.1}},
		{"inside a Retry-After", "0:200 1000:429:3 1200:200 1201:200 3999:200 4000:200", 0, 10, realserver.Figures{Requests: 6, Refused: 1, Inside: 2, Used: 0.5}},
		{"one that runs into the span", "0:200 1000:503:9 8000:200", 5, 10, realserver.Figures{Requests: 1, Inside: 1, Blocks: 1, Used: 0.2}},
		{"that of a good answer orders nothing", "0:200:9 1000:200", 0, 10, realserver.Figures{Requests: 2, Used: 0.2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
			require.Equal(t, tc.want, realserver.Measure(logged(t, tc.hits), at(tc.from), at(tc.to), 1))
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
