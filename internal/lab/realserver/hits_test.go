package realserver_test

import (
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
	for _, tc := range []struct{ line, want string }{
		{"", "no request"},
		{"at=1700000000 status=200", "no request"},
		{"status=200 request=GET /", "lacks its time"},
		{"at=1700000000 request=GET /", "lacks its time or status"},
		{"at=- status=200 request=GET /", "at in"},
		{"at=1.1234567890 status=200 request=GET /", "nine places"},
		{"at=99999999999999999999 status=200 request=GET /", "out of range"},
		{"at_ms=9223372036854775807 status=200 request=GET /", "out of range"},
		{"at=1 status=OK request=GET /", "status in"},
		{"at=1 status=200 after=soon request=GET /", "after in"},
		{"at=1 status=200 hue=red request=GET /", "unknown field"},
	} {
		_, err := realserver.ParseHits(strings.NewReader("at=1 status=200 after=- request=GET /\n" + tc.line + "\n"))
		require.ErrorContains(t, err, "log line 2", tc.line)
		require.ErrorContains(t, err, tc.want, tc.line)
	}
}

// Whatever a log holds, hits come in order of arrival, one for each line, and nothing
// in them is negative.
func FuzzParseHits(f *testing.F) {
	f.Add("at=1700000000.123 status=200 after=- request=GET /a HTTP/1.1")
	f.Add("end=1700000000.123 took=0.5 status=200 after=10 request=GET /a\nat_ms=17 status=429 after= request=")
	f.Fuzz(func(t *testing.T, log string) {
		hits, err := realserver.ParseHits(strings.NewReader(log))
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(hits), strings.Count(log, "\n")+1)
		for i, h := range hits {
			require.GreaterOrEqual(t, h.Took, time.Duration(0))
			require.GreaterOrEqual(t, h.RetryAfter, time.Duration(0))
			require.NotZero(t, h.Status)
			require.False(t, i > 0 && h.At.Before(hits[i-1].At), "out of order")
		}
	})
}
