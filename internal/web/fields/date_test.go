package fields

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDate(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " \n ": "",
		"2026-11-26": "2026-11-26", "2026": "2026", "2026-11": "2026-11", "20261126": "2026-11-26", "2026/11/26": "2026-11-26",
		"2026-11-26T11:40:00Z": "2026-11-26T11:40:00Z", "2026-11-26T11:40:00+02:00": "2026-11-26T11:40:00+02:00",
		"2026-11-26 11:40": "2026-11-26T11:40:00", "2026-11-26T11:40:00.25-0500": "2026-11-26T11:40:00.25-05:00",
		"Thu, 26 Nov 2026 11:40:00 GMT": "2026-11-26T11:40:00Z", "Thu, 26 Nov 2026 11:40:00 +0200": "2026-11-26T11:40:00+02:00",
		"26 Nov 2026 11:40 EST": "2026-11-26T11:40:00-05:00", "2026-11-26 11:40:00 CEST": "2026-11-26T11:40:00+02:00",
		"Nov 26, 2026": "2026-11-26", "November 26, 2026 3:04 PM": "2026-11-26T15:04:00", "26th November\n 2026": "2026-11-26",
		"26. November 2026": "2026-11-26", "Thursday, 26 November 2026": "2026-11-26", "Nov 26, 2026 at 3:04pm PST": "2026-11-26T15:04:00-08:00",
		"26/11/2026": "2026-11-26", "11/26/2026": "2026-11-26", "26.11.2026": "2026-11-26", "04.03.2026": "2026-03-04", "04.03.2026 10:30": "2026-03-04T10:30:00",
		"2026年11月26日": "2026-11-26", "1700000000": "2023-11-14T22:13:20Z", "1700000000123": "2023-11-14T22:13:20.123Z",
	} {
		got, err := date(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
	for text, want := range map[string]string{
		"03/04/2026": "day first or the month", "yesterday": "no date", "3": "no date", "12:30": "no date", "26 novembre 2026": "no date", "2026-13-40": "no date",
		"2026-11-26 11:40:00 XYZ": "time zone XYZ", "Published Nov 26, 2026": "no date", "9.99 €": "no date", "call 2026": "no date",
	} {
		got, err := date(text)
		require.ErrorContains(t, err, want, "%q", text)
		require.Empty(t, got, "%q", text)
	}
}

// Whatever a page has is a date or an error, and a date is read as itself.
func FuzzDate(f *testing.F) {
	for _, s := range []string{"2026-11-26T11:40:00+02:00", "26. Nov 2026", "1700000000", "04.03.2026 10:30 PST", "2026年11月26日", "Mon Jan  2 15:04:05 -0700 MST 2006", "oct 7, '70"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		iso, err := date(s)
		if err != nil || iso == "" {
			return
		}
		again, err := date(iso)
		require.NoError(t, err, "%q of %q", iso, s)
		require.Equal(t, iso, again, "of %q", s)
		for _, layout := range []string{"2006", "2006-01", time.DateOnly, "2006-01-02T15:04:05.999999999", time.RFC3339Nano} {
			if at, err := time.Parse(layout, iso); err == nil && at.Format(layout) == iso {
				return
			}
		}
		t.Errorf("%q of %q is not of ISO 8601", iso, s)
	})
}
