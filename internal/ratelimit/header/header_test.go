package header_test

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

var now = time.Date(2026, 11, 6, 8, 49, 37, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"0", 0, true},
		{"120", 2 * time.Minute, true},
		{" 5\t", 5 * time.Second, true},
		{"0007", 7 * time.Second, true},
		{"3600", time.Hour, true},
		{"3601", time.Hour, true},
		{"18446744074", time.Hour, true}, // 290 ms if the product wraps around
		{"99999999999999999999999999", time.Hour, true},
		{"Fri, 06 Nov 2026 08:50:07 GMT", 30 * time.Second, true},
		{"Friday, 06-Nov-26 08:50:07 GMT", 30 * time.Second, true},
		{"Fri Nov  6 08:50:07 2026", 30 * time.Second, true},
		{"Fri, 06 Nov 2026 08:49:36 GMT", 0, true},
		{"Sun, 06 Nov 1994 08:49:37 GMT", 0, true},
		{"Fri, 31 Dec 9999 23:59:59 GMT", time.Hour, true},
		{"", 0, false},
		{"-5", 0, false},
		{"+5", 0, false},
		{"1.5", 0, false},
		{"5s", 0, false},
		{"5, 6", 0, false},
		{"0x10", 0, false},
		{"soon", 0, false},
		{"2026-11-06T08:50:07Z", 0, false},
		{"Fri, 06 Nov 2026 08:50:07 UTC", 0, false},
	} {
		got, ok := header.RetryAfterOf(headers("Retry-After", tc.value), now, time.Hour)
		require.Equal(t, []any{tc.want, tc.ok}, []any{got, ok}, "%+v", tc)
	}
	if got, ok := header.RetryAfterOf(headers("Retry-After", "99999999999999999999"), now, 0); got != math.MaxInt64 || !ok {
		t.Errorf("RetryAfter without a limit = %v, %v, want the longest Duration", got, ok)
	}
}

func TestFormatRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0"}, {0, "0"}, {1, "1"}, {time.Second, "1"}, {time.Second + 1, "2"}, {math.MaxInt64, "9223372037"},
	} {
		require.EqualValues(t, tc.want, header.FormatRetryAfter(tc.d), "%+v", tc)
	}
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestParseLegacy(t *testing.T) {
	for _, tc := range []struct {
		name string
		h    http.Header
		want header.Quota
		ok   bool
	}{
		{"all three, delta", headers("X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "42", "X-RateLimit-Reset", "30"), header.Quota{Limit: 100, Remaining: 42, Reset: 30 * time.Second}, true},
		{"fraction", headers("X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "0.5"), header.Quota{Remaining: 1, Reset: 500 * time.Millisecond}, true},
		{"epoch", headers("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1793954987"), header.Quota{Reset: 10 * time.Second}, true},
		{"epoch in ms", headers("X-RateLimit-Remaining", "7", "X-RateLimit-Reset", "1793954987250"), header.Quota{Remaining: 7, Reset: 10250 * time.Millisecond}, true},
		{"epoch that has passed", headers("X-RateLimit-Remaining", "7", "X-RateLimit-Reset", "1793954000"), header.Quota{Remaining: 7}, true},
		{"date", headers("X-RateLimit-Remaining", "7", "X-RateLimit-Reset", now.Add(10*time.Second).UTC().Format(http.TimeFormat)), header.Quota{Remaining: 7, Reset: 10 * time.Second}, true},
		{"date of RFC 850", headers("X-RateLimit-Remaining", "7", "X-RateLimit-Reset", now.Add(time.Minute).UTC().Format("Monday, 02-Jan-06 15:04:05 GMT")), header.Quota{Remaining: 7, Reset: time.Minute}, true},
		{"date that has passed", headers("X-RateLimit-Remaining", "7", "X-RateLimit-Reset", "Sun, 06 Nov 1994 08:49:37 GMT"), header.Quota{Remaining: 7}, true},
		{"policy", headers("X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "7", "X-RateLimit-Policy", "10;w=1, 100;w=60;comment=x"), header.Quota{Limit: 100, Remaining: 7, Window: time.Minute}, true},
		{"policy of another limit", headers("X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "7", "X-RateLimit-Policy", "10;w=1"), header.Quota{Limit: 100, Remaining: 7}, true},
		{"policy that is a name", headers("X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "7", "X-RateLimit-Policy", "gold"), header.Quota{Limit: 100, Remaining: 7}, true},
		{"policy of ages", headers("X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "7", "X-RateLimit-Policy", "100;w=99999999999999"), header.Quota{Limit: 100, Remaining: 7}, true},
		{"remaining alone", headers("X-RateLimit-Remaining", "3"), header.Quota{Remaining: 3}, true},
		{"draft 6", headers("RateLimit-Limit", "10", "RateLimit-Remaining", "9", "RateLimit-Reset", "1"), header.Quota{Limit: 10, Remaining: 9, Reset: time.Second}, true},
		{"said twice, alike", headers("X-RateLimit-Remaining", "3", "X-RateLimit-Remaining", " 3"), header.Quota{Remaining: 3}, true},
		{"said twice, not alike", headers("X-RateLimit-Remaining", "3", "X-RateLimit-Remaining", "4"), header.Quota{}, false},
		{"no remaining", headers("X-RateLimit-Limit", "100", "X-RateLimit-Reset", "30"), header.Quota{}, false},
		{"nothing left and nothing else", headers("X-RateLimit-Remaining", "0"), header.Quota{}, false},
		{"malformed remaining", headers("X-RateLimit-Remaining", "many"), header.Quota{}, false},
		{"malformed limit", headers("X-RateLimit-Remaining", "1", "X-RateLimit-Limit", "100;w=60"), header.Quota{}, false},
		{"malformed reset", headers("X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "soon"), header.Quota{}, false},
		{"negative", headers("X-RateLimit-Remaining", "-1"), header.Quota{}, false},
		{"absurd reset", headers("X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "99999999999999999"), header.Quota{}, false},
		{"nothing", headers(), header.Quota{}, false},
	} {
		got, ok := header.Parse(tc.h, now)
		require.Equal(t, []any{tc.want, tc.ok}, []any{got, ok}, "%+v", tc)
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name string
		h    http.Header
		want header.Quota
		ok   bool
	}{
		{"one quota", headers("RateLimit", `"burst";r=50;t=30`), header.Quota{Remaining: 50, Reset: 30 * time.Second}, true},
		{
			"with its policy",
			headers("RateLimit", `"burst";r=50;t=30`, "RateLimit-Policy", `"burst";q=100;w=60`),
			header.Quota{Limit: 100, Remaining: 50, Reset: 30 * time.Second, Window: time.Minute},
			true,
		},
		{"the tightest of two", headers("RateLimit", `"burst";r=50;t=30, "daily";r=900;t=86400`), header.Quota{Remaining: 900, Reset: 24 * time.Hour}, true},
		{"over two lines", headers("RateLimit", `"daily";r=900;t=86400`, "RateLimit", `"burst";r=50;t=30`), header.Quota{Remaining: 900, Reset: 24 * time.Hour}, true},
		{"both used up: the later reset", headers("RateLimit", `"a";r=0;t=5, "b";r=0;t=60`), header.Quota{Reset: time.Minute}, true},
		{"no reset: the window bounds it", headers("RateLimit", `"a";r=5`, "RateLimit-Policy", `"a";q=10;w=60`), header.Quota{Limit: 10, Remaining: 5, Reset: time.Minute, Window: time.Minute}, true},
		{
			"bytes are no requests",
			headers("RateLimit", `"b";r=5;t=9, "r";r=70;t=7`, "RateLimit-Policy", `"b";q=10;qu="content-bytes", "r";q=100;qu="requests"`),
			header.Quota{Limit: 100, Remaining: 70, Reset: 7 * time.Second},
			true,
		},
		{"malformed policy is ignored", headers("RateLimit", `"a";r=5;t=9`, "RateLimit-Policy", `"a"`), header.Quota{Remaining: 5, Reset: 9 * time.Second}, true},
		{"goes before the old family", headers("RateLimit", `"a";r=5;t=9`, "X-RateLimit-Remaining", "1"), header.Quota{Remaining: 5, Reset: 9 * time.Second}, true},
		{"malformed: the old family", headers("RateLimit", `a;r=5;t=9`, "X-RateLimit-Remaining", "1"), header.Quota{Remaining: 1}, true},
		{"fresh from a cache", headers("Age", "0", "X-RateLimit-Remaining", "1"), header.Quota{Remaining: 1}, true},
		{"stale from a cache", headers("Age", "10", "X-RateLimit-Remaining", "1"), header.Quota{}, false},
		{"nothing", headers(), header.Quota{}, false},
	} {
		got, ok := header.Parse(tc.h, now)
		require.Equal(t, []any{tc.want, tc.ok}, []any{got, ok}, "%+v", tc)
	}
}

func TestMalformedRateLimit(t *testing.T) {
	for _, value := range []string{
		``, `"a"`, `"a";t=5`, `"a";r`, `"a";r=`, `"a";r=-1`, `"a";r=1.5`, `"a";r="1"`, `"a";r=1;t=-1`, `"a";r=1;t=x`,
		`"a";r=1,`, `"a";r=1 "b";r=2`, `"a;r=1`, `"a\x";r=1`, `"ü";r=1`, `a;r=1`, `("a" "b");r=1`, `"a";R=1`, `"a";r=1;`,
		`"a";r=1234567890123456`, `"a";r=1;pk=x`, `"a";r=1;pk=:!:`, `"a";r=1;pk=:YQ==`, `"a";r=1;x=?2`, `"a";r=1;x=1.2345`, `"a";r=1;x=@`,
	} {
		if got, ok := header.Parse(headers("RateLimit", value), now); ok {
			t.Errorf("Parse of %q = %+v, want nothing", value, got)
		}
	}
	for _, policy := range []string{`"a"`, `"a";w=60`, `"a";q=1;qu=5`, `"a";q=1;w=1.0`} {
		if got, ok := header.Parse(headers("RateLimit", `"a";r=1;t=2`, "RateLimit-Policy", policy), now); !ok || got != (header.Quota{Remaining: 1, Reset: 2 * time.Second}) {
			t.Errorf("Parse beside the policy %q = %+v, want what goes without it", policy, got)
		}
	}
}

func TestParseWhatOthersMayAdd(t *testing.T) {
	got, ok := header.Parse(headers("RateLimit", `"a\"\\";r=1;t=0;new=?1;x;y=tok/en:1;z=-2.5;s="s";b=:YQ==:;r=2;pk=:YWI=:`, "RateLimit-Policy", `"a\"\\";q=9;qu=requests`), now)
	if want := (header.Quota{Limit: 9, Remaining: 2}); !ok || got != want {
		t.Errorf("Parse = %+v, %v, want %+v", got, ok, want)
	}
}

func TestFormatPolicies(t *testing.T) {
	policies := []header.Policy{
		{Name: "burst", Quota: 100, Window: time.Minute},
		{Name: `a "day"`, Quota: 1000, Window: 24*time.Hour - 1, Unit: "content-bytes"},
	}
	got, err := header.FormatPolicies(policies)
	if want := `"burst";q=100;w=60, "a \"day\"";q=1000;w=86400;qu="content-bytes"`; err != nil || got != want {
		t.Errorf("FormatPolicies = %s, %v, want %s", got, err, want)
	}
	for _, bad := range [][]header.Policy{nil, {{Name: "ü"}}} {
		if got, err := header.FormatPolicies(bad); err == nil {
			t.Errorf("FormatPolicies(%+v) = %s, want an error", bad, got)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "18446744074", "Fri, 06 Nov 2026 08:50:07 GMT", "Friday, 06-Nov-26 08:50:07 GMT", "-1"} {
		f.Add(s, int64(time.Hour))
	}
	f.Fuzz(func(t *testing.T, value string, limit int64) {
		d, ok := header.RetryAfterOf(headers("Retry-After", value), now, time.Duration(limit))
		if d < 0 || limit > 0 && d > time.Duration(limit) || !ok && d != 0 {
			t.Fatalf("RetryAfterOf(%q, %d) = %v, %v", value, limit, d, ok)
		}
		if back, _ := header.RetryAfterOf(headers("Retry-After", header.FormatRetryAfter(d)), now, 0); back < d && d < math.MaxInt64-1e9 {
			t.Fatalf("%v is written so that it reads as %v, which is early", d, back)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("100", "42", "30", "", "")
	f.Add("", "0", "1793954987250", "", "")
	f.Add("", "", "", `"burst";r=50;t=30, "daily";r=900;t=86400;pk=:YQ==:`, `"burst";q=100;w=60;qu="requests"`)
	f.Add("", "", "", `"a\"\\";r=1;x=?1;y=-1.5`, `"a";q=0;pk=::`)
	f.Fuzz(func(t *testing.T, limit, remaining, reset, standard, policy string) {
		h := headers("X-RateLimit-Limit", limit, "X-RateLimit-Remaining", remaining, "X-RateLimit-Reset", reset)
		if standard != "" {
			h = headers("RateLimit", standard, "RateLimit-Policy", policy)
		}
		q, ok := header.Parse(h, now)
		if q.Limit < 0 || q.Remaining < 0 || q.Reset < 0 || q.Window < 0 || q.InFlight < 0 || ok == q.IsZero() {
			t.Fatalf("Parse(%v) = %+v, %v", h, q, ok)
		}
	})
}

// The seventh draft has RateLimit as a dictionary. The examples are among the cases.
func TestDraft7(t *testing.T) {
	for value, want := range map[string]header.Quota{
		"limit=100, remaining=50, reset=5":           {Limit: 100, Remaining: 50, Reset: 5 * time.Second, Window: 10 * time.Second},
		" remaining=50;x=y ,reset=5 , *new, limit=9": {Limit: 9, Remaining: 50, Reset: 5 * time.Second},
		"remaining=1, remaining=2":                   {Remaining: 2},
		"limit=100, reset=5":                         {},
		"limit=100, remaining=50, reset=5,":          {},
		"limit=100 remaining=50":                     {},
		"limit=100, remaining=-1":                    {},
		"limit=100, remaining=50, reset=soon":        {},
		"Limit=100, Remaining=50":                    {},
		"":                                           {},
	} {
		q, ok := header.Parse(headers("RateLimit", value, "RateLimit-Policy", "100;w=10"), now)
		if q != want || ok == want.IsZero() {
			t.Errorf("%q = %+v, %v; want %+v", value, q, ok, want)
		}
	}
}

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
		require.EqualValues(t, tc.want, header.Second(h), "%+v", tc)
	}
	two := http.Header{"Date": {"Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"}}
	require.EqualValues(t, 0, header.Second(two))
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

// The cases are in testdata/conformance/headers.
func TestConformance(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/conformance/headers/cases.txt")
	require.NoError(t, err)
	received := time.Date(2019, 8, 5, 9, 27, 0, 0, time.UTC)
	result := conformance.Result{Differs: map[string]int{}}
	name, h, asked := "", http.Header{}, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "= "); ok {
			name, h, asked = title, http.Header{}, false
			continue
		}
		want, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if field, value, ok := strings.Cut(line, ": "); ok && name != "" {
				if asked {
					t.Fatalf("%s: %q stands behind the verdict", name, line)
				}
				h.Add(field, value)
			}
			continue
		}
		asked = true
		want, why, differs := strings.Cut(want, " differs: ")
		result.Cases++
		switch got := said(h, received, strings.HasPrefix(want, "retry")); {
		case differs && got != want:
			result.Differs[why]++
		case got == want && !differs:
			result.Passed++
		default:
			t.Errorf("%s: %v = %q, want %q, differs: %v", name, h, got, want, differs)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "headers", result)
	}
}

// Each header that the sources name has a case: what is looked up.
func TestEachHeaderHasACase(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/conformance/headers/cases.txt")
	require.NoError(t, err)
	names := regexp.MustCompile(`(?:prefix\+|h\[|h\.Get\(|parseFamily\(h, )"([A-Za-z-]+)"`)
	found := 0
	for _, file := range []string{"header.go", "structured.go"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range names.FindAllStringSubmatch(string(source), -1) {
			found++
			require.Regexp(t, `(?mi)^\S*`+m[1]+`\S*: `, string(text), "%s names %s", file, m[1])
		}
	}
	require.GreaterOrEqual(t, found, 9)
}

func said(h http.Header, now time.Time, retry bool) string {
	d, ok := header.RetryAfterOf(h, now, 0)
	if retry {
		return fmt.Sprintf("retry %v", d.Seconds())
	}
	q, quota := header.Parse(h, now)
	switch {
	case quota:
		return fmt.Sprintf("limit %d remaining %d reset %v window %v", q.Limit, q.Remaining, q.Reset.Seconds(), q.Window.Seconds())
	case ok:
		return fmt.Sprintf("retry %v", d.Seconds())
	}
	return "nothing"
}
