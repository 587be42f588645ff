package header_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
)

func date(at time.Time) string { return at.UTC().Format(http.TimeFormat) }

// A wait until a date is that between two readings of one clock: the server's.
func TestWaitsDoNotDependOnOurClock(t *testing.T) {
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

func TestDatesAreOfTheirWriter(t *testing.T) {
	server := now.Truncate(time.Second)
	for _, tc := range []struct {
		name string
		h    http.Header
		now  time.Time
		want time.Time
	}{
		{"no date", headers(), now, now},
		{"no date that can be read", headers("Date", "yesterday"), now, now},
		{"within its second", headers("Date", date(server)), server.Add(999 * time.Millisecond), server.Add(999 * time.Millisecond)},
		{"a second later", headers("Date", date(server)), server.Add(time.Second), server},
		{"before it", headers("Date", date(server)), server.Add(-1), server},
		{"from a cache", headers("Date", date(server), "Age", "90"), server.Add(time.Hour), server.Add(90 * time.Second)},
		{"just from a cache", headers("Date", date(server), "Age", "90"), server.Add(90*time.Second + 1), server.Add(90*time.Second + 1)},
		{"an age that is none", headers("Date", date(server), "Age", "-90"), server.Add(time.Hour), server},
		{"from a cache that writes the date anew", headers("Date", date(server), "Age", "90"), server.Add(1), server.Add(1)},
		{"an absurd age", headers("Date", date(server), "Age", "99999999999999999999"), server.Add(time.Hour), server.Add(366 * 24 * time.Hour)},
	} {
		until := server.Add(1000 * time.Hour)
		tc.h.Set("Retry-After", date(until))
		if got, _ := header.RetryAfterOf(tc.h, tc.now, 0); got != max(until.Sub(tc.want), 0) {
			t.Errorf("%s: written at %v, want %v", tc.name, until.Add(-got), tc.want)
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
	for _, tc := range []struct {
		lines []string
		want  time.Duration
		ok    bool
	}{
		{[]string{"soon", "7"}, 7 * time.Second, true},
		{[]string{"", "7"}, 7 * time.Second, true},
		{[]string{"7", "soon"}, 7 * time.Second, true},
		{[]string{"7", "9", "8"}, 9 * time.Second, true},
		{[]string{"-1", "Sun, 06 Nov 1994 08:49:37 GMT"}, 0, true},
		{[]string{"soon", "later"}, 0, false},
	} {
		if d, ok := header.RetryAfterOf(http.Header{"Retry-After": tc.lines}, now, 0); d != tc.want || ok != tc.ok {
			t.Errorf("%q: %v, %v; want %v, %v", tc.lines, d, ok, tc.want, tc.ok)
		}
	}
	if d, ok := header.RetryAfterOf(headers("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT", "Date", "Mon, 01 Jan 0001 00:00:00 GMT"), now, 0); !ok || d <= 0 {
		t.Errorf("two dates ten thousand years apart: %v, %v", d, ok)
	}
}

// The second of an answer is that of its Date, if that is in the form it has to have.
func TestSecond(t *testing.T) {
	for _, tc := range []struct {
		date, age string
		want      uint8
	}{
		{"Sun, 06 Nov 1994 08:49:37 GMT", "", 38},
		{"Sun, 06 Nov 1994 08:49:00 GMT", "", 1},
		{"Sat, 31 Dec 2016 23:59:60 GMT", "", 61}, // a leap second
		{"Sun, 06 Nov 1994 08:49:37 GMT", "0", 38},
		{"Sun, 06 Nov 1994 08:49:37 GMT", "12", 0}, // of a cache
		{"Sunday, 06-Nov-94 08:49:37 GMT", "", 0},
		{"Sun Nov  6 08:49:37 1994", "", 0},
		{"Sun, 06 Nov 1994 08:49:37 CET", "", 0},
		{"Sun, 06 Nov 1994 08:49:7x GMT", "", 0},
		{"Sun, 06 Nov 1994 08:49:99 GMT", "", 0},
		{"Sun, 06 Nov 1994 08 49 37 GMT", "", 0},
		{"", "", 0},
	} {
		h := http.Header{}
		if tc.date != "" {
			h.Set("Date", tc.date)
		}
		if tc.age != "" {
			h.Set("Age", tc.age)
		}
		if got := header.Second(h); got != tc.want {
			t.Errorf("Second of %q, age %q = %d, want %d", tc.date, tc.age, got, tc.want)
		}
	}
	two := http.Header{"Date": {"Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"}}
	if got := header.Second(two); got != 0 {
		t.Errorf("Second of two dates = %d, want 0", got)
	}
}

// Whatever a Date says, its second is none or that of a minute, and a date that is one has it.
func FuzzSecond(f *testing.F) {
	f.Add("Sun, 06 Nov 1994 08:49:37 GMT")
	f.Fuzz(func(t *testing.T, date string) {
		got := header.Second(http.Header{"Date": {date}})
		if got > 61 {
			t.Fatalf("the second of %q is %d", date, got)
		}
		if at, err := time.Parse(http.TimeFormat, date); err == nil && at.Format(http.TimeFormat) == date && int(got) != at.Second()+1 {
			t.Fatalf("the second of %q is %d, want %d", date, got, at.Second()+1)
		}
	})
}
