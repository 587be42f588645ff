package watch

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/watch/plan"
)

// What follows from the visit alone is no change, and everything else is.
func TestCompare(t *testing.T) {
	before := time.Date(2026, 3, 2, 8, 15, 0, 0, time.UTC)
	now := before.Add(26*time.Hour + 7*time.Minute) // 10:22 on the 3rd
	for _, tc := range []struct {
		name     string
		old, now string
		added    int
		removed  int
	}{
		{"the same", "a\nb", "a\nb", 0, 0},
		{"another order", "a\nb\nc", "c\na\nb", 0, 0},
		{"a line twice", "a\nb", "a\nb\na", 0, 0},
		{"a line more", "a\nb", "a\nx\nb", 1, 0},
		{"a line less", "a\nb", "a", 0, 1},
		{"a number", "costs 10.00", "costs 12.00", 1, 1},
		{"nothing left", "a", "", 1, 1},

		{"a date of today, in figures", "As of 2026-03-02", "As of 2026-03-03", 0, 0},
		{"in words", "Monday, March 2, 2026", "Tuesday, March 3, 2026", 0, 0},
		{"day first", "2 March 2026", "3. Mar 2026", 0, 0},
		{"by slashes", "03/02/2026", "03/03/2026", 0, 0},
		{"by points", "2.3.2026 news", "03.03.2026 news", 0, 0},
		{"with a time", "2026-03-02T08:15:01Z end", "2026-03-03T10:22:59+01:00 end", 0, 0},
		{"a date that stays", "From 2026-03-02 on", "From 2026-03-02 on", 0, 0},
		{"a date to come", "Concert on 5 May 2026", "Concert on 6 May 2026", 1, 1},
		{"a date that passed", "Closed since 2026-01-01", "Closed since 2026-01-02", 1, 1},
		{"no date", "March 2 of 3", "March 2 of 4", 1, 1},
		{"no month", "Smart 2, 2026", "Smart 3, 2026", 1, 1},

		{"the time, with seconds", "Now: 08:15:33", "Now: 10:22:01", 0, 0},
		{"of the visit, in another zone", "at 9:15 am", "at 11:21 am", 0, 0},
		{"an appointment", "Doors at 19:00", "Doors at 20:00", 1, 1},
		{"how long ago", "posted 5 minutes ago by x", "posted 2 hours ago by x", 0, 0},
		{"how long ago, at first", "posted just now", "posted an hour ago", 0, 0},
		{"a result, with seconds", "Record: 02:41:33", "Record: 02:43:01", 1, 1},
		{"half an hour away from the visit", "Opens at 8:45", "Opens at 9:52", 1, 1},
		{"half an hour away, with the date", "2026-03-02 13:45 IST", "2026-03-03 15:52 IST", 0, 0},
		{"a stamp", "t=1772439300", "t=1772533320", 0, 0},
		{"a number as long", "part 1234567890", "part 1234567891", 1, 1},

		{"an identifier", "Request 8f14e45fceea167a5a36dedd4bea2543", "Request 45c48cce2e2d7fbdea1afc51c7c6ad26", 0, 0},
		{"a UUID", "id 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id 6ba7b810-9dad-11d1-80b4-00c04fd430c8", 0, 0},
		{"a token", "t aB3dE5fG7hJ9kL1mN2pQ4 x", "t zY8xW6vU4tS2rQ0pO9nM7 x", 0, 0},
		{"a name with figures", "iPhone-15-Pro-Max-256GB-Blue", "iPhone-16-Pro-Max-512GB-Grey", 1, 1},
		{"a long word", "internationalisierung", "internationalisation", 1, 1},
		{"a long number", "1234567890123456 widgets", "1234567890123457 widgets", 1, 1},
		{"what is no text", "application/pdf sha256:8f14e45fceea167a5a36dedd4bea2543", "application/pdf sha256:45c48cce2e2d7fbdea1afc51c7c6ad26", 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, added, removed := compare(strings.Split(tc.old, "\n"), strings.Split(tc.now, "\n"), before, now).diff(all)
			require.Equal(t, []int{tc.added, tc.removed}, []int{added, removed}, text)
			require.Equal(t, added+removed == 0, text == "")
		})
	}
}

// A diff shows what has changed. In place of noise it shows the earlier text.
func TestDiff(t *testing.T) {
	at := time.Date(2026, 3, 2, 8, 15, 0, 0, time.UTC)
	text, _, _ := compare([]string{"one", "made 08:15:00", "two", "three"}, []string{"one", "made 09:15:00", "2", "three"}, at, at.Add(time.Hour)).diff(all)
	require.Equal(t, "@@ -1,4 +1,4 @@\n one\n made 08:15:00\n-two\n+2\n three\n", text)
	long := strings.Split(strings.Repeat("a line of a long text\n", 1000), "\n")
	for i := range long {
		long[i] += strings.Repeat("x", i)
	}
	text, added, _ := compare([]string{"one"}, long, at, at).diff(all)
	require.Equal(t, len(long), added)
	require.LessOrEqual(t, len(text), maxDiff+10)
	require.True(t, strings.HasSuffix(text, "\n...\n"))
}

func TestClean(t *testing.T) {
	r := reader{ignore: []*regexp.Regexp{regexp.MustCompile(`\d+ views`)}}
	require.Equal(t, []string{"a b", "read:"}, r.clean("  a \t b \n\n 12 views\nread: 13 views\n"))
	require.Less(t, len(strings.Join(r.clean(strings.Repeat("line of text\n", 20_000)), "\n")), maxText)
	long := r.clean("first\n" + strings.Repeat("x€", maxText) + "\nlast")
	require.Len(t, long, 2, "a line that is too long is cut")
	require.True(t, strings.HasPrefix(long[1], "x€x€") && utf8.ValidString(long[1]))
	require.InDelta(t, maxText, len(strings.Join(long, "\n")), 4)
}

// A text does not differ from itself, and lines that differ in noise at one time do not differ at that time.
func FuzzCompare(f *testing.F) {
	f.Add("a\nb 08:15:00", "b 09:15:00\n3 March 2026", int64(1_772_439_300))
	f.Add("1/1/1 just now", "\xff\x00 9999-99-99", int64(0))
	f.Fuzz(func(t *testing.T, a, b string, seconds int64) {
		r := new(reader)
		old, now, at := r.clean(a), r.clean(b), time.Unix(seconds%4e9, 0)
		_, added, removed := compare(old, old, at, at.Add(time.Hour)).diff(all)
		require.Zero(t, added+removed)
		text, added, removed := compare(old, now, at, at).diff(all)
		back, less, more := compare(now, old, at, at).diff(all)
		require.Equal(t, []int{added, removed}, []int{more, less})
		require.Equal(t, text == "", back == "")
		require.True(t, utf8.ValidString(text))
		require.LessOrEqual(t, len(text), 3*(maxDiff+10))
	})
}

// A stored history is read back, and an invalid one is refused.
func FuzzHistory(f *testing.F) {
	f.Add([]byte(nil))
	var h plan.History
	h.Observe(time.Hour, true)
	h.Observe(5*time.Hour, false)
	f.Add([]byte(packHistory(&h)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again plan.History
		if unpackHistory(b, &h) != nil {
			return
		}
		require.NoError(t, unpackHistory([]byte(packHistory(&h)), &again))
		require.Equal(t, h, again)
	})
}

func all(*edit) bool { return true }
