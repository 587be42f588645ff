package header_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// A wait until a date is that between two readings of one clock: the server's.
func TestWaitsDoNotDependOnOurClock(t *testing.T) {
	date := func(at time.Time) string { return at.UTC().Format(http.TimeFormat) }
	server := now.Truncate(time.Second)
	for _, skew := range []time.Duration{-48 * time.Hour, -7 * time.Minute, -2 * time.Second, 0, 2 * time.Second, 5 * time.Minute, 48 * time.Hour} {
		ours := server.Add(skew)
		h := headers("Date", date(server), "Retry-After", date(server.Add(30*time.Second)),
			"X-RateLimit-Remaining", "3", "X-RateLimit-Reset", date(server.Add(20*time.Second)))
		if d, ok := header.RetryAfterOf(h, ours, time.Hour); !ok || d != 30*time.Second {
			t.Errorf("our clock %v ahead: RetryAfterOf = %v, %v; want 30s", skew, d, ok)
		}
		if q, ok := header.Parse(h, ours); !ok || q.Reset != 20*time.Second {
			t.Errorf("our clock %v ahead: Parse = %+v, %v; want a reset of 20s", skew, q, ok)
		}
	}
}

func TestWritten(t *testing.T) {
	server := now.Truncate(time.Second)
	date := server.UTC().Format(http.TimeFormat)
	for _, tc := range []struct {
		name string
		h    http.Header
		now  time.Time
		want time.Time
	}{
		{"no date", headers(), now, now},
		{"no date that can be read", headers("Date", "yesterday"), now, now},
		{"within its second", headers("Date", date), server.Add(999 * time.Millisecond), server.Add(999 * time.Millisecond)},
		{"a second later", headers("Date", date), server.Add(time.Second), server},
		{"before it", headers("Date", date), server.Add(-1), server},
		{"from a cache", headers("Date", date, "Age", "90"), server.Add(time.Hour), server.Add(90 * time.Second)},
		{"just from a cache", headers("Date", date, "Age", "90"), server.Add(90*time.Second + 1), server.Add(90*time.Second + 1)},
		{"an age that is none", headers("Date", date, "Age", "-90"), server.Add(time.Hour), server},
		{"from a cache that writes the date anew", headers("Date", date, "Age", "90"), server.Add(1), server.Add(1)},
		{"an absurd age", headers("Date", date, "Age", "99999999999999999999"), server.Add(time.Hour), server.Add(366 * 24 * time.Hour)},
	} {
		if got := header.Written(tc.h, tc.now); !got.Equal(tc.want) {
			t.Errorf("%s: Written = %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestRetryAfterOf(t *testing.T) {
	if d, ok := header.RetryAfterOf(headers("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), now, 0); ok || d != 0 {
		t.Errorf("without the header: %v, %v", d, ok)
	}
	if d, ok := header.RetryAfterOf(headers("Retry-After", "7", "Date", "Sun, 06 Nov 1994 08:49:37 GMT"), now, 0); !ok || d != 7*time.Second {
		t.Errorf("in seconds: %v, %v; want 7s whatever the date", d, ok)
	}
	if d, ok := header.RetryAfterOf(headers("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT", "Date", "Mon, 01 Jan 0001 00:00:00 GMT"), now, 0); !ok || d <= 0 {
		t.Errorf("two dates ten thousand years apart: %v, %v", d, ok)
	}
}
