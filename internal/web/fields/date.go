package fields

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/itlightning/dateparse"

	"github.com/treadlight/crawl/internal/lazy"
)

// maxDate bounds the text of a date, in bytes.
const maxDate = 100

var (
	errNoDate    = errors.New("is no date that can be read; those in digits and in English words can, as in the datetime attribute of an element time")
	errAmbiguous = errors.New("may have the day first or the month; select one that says which, such as the datetime attribute of an element time")
)

// namedZones has the abbreviations with a unique offset, in hours: those of RFC 5322, and European ones.
var namedZones = map[string]int{
	"UTC": 0, "GMT": 0, "UT": 0, "Z": 0, "WET": 0, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3,
	"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}

var ordinalDay = lazy.Regexp(`^(\d{1,2})\.\s+(\pL)`) // 26. November

// date returns a date in the form of ISO 8601, as precise as the text is: a year, a month, a day, a time, or a time
// with its zone. A zone is kept, and none is assumed. Numbers of ten or thirteen digits are seconds or milliseconds
// since 1970. An empty text gives an empty result.
func date(s string) (iso string, err error) {
	if s = ordinalDay().ReplaceAllString(strings.Join(strings.Fields(s), " "), "$1 $2"); s == "" {
		return "", nil
	}
	if len(s) > maxDate {
		return "", errNoDate
	}
	defer func() {
		if recover() != nil { // the library panics on some texts
			iso, err = "", errNoDate
		}
	}()
	layout, err := layoutOf(s)
	if err != nil {
		return "", err
	}
	unix := layout == s && strings.Trim(s, digits) == "" && len(s) >= len("1700000000")
	if !unix && !strings.Contains(layout, "06") {
		return "", errNoDate
	}
	t, err := time.Parse(layout, s)
	if unix || err != nil { // the library parses some texts differently from the layout
		if t, err = dateparse.ParseAny(s, dateparse.PreferMonthFirst(strings.HasPrefix(layout, "01"))); err != nil {
			return "", errNoDate
		}
	}
	switch clock := strings.Contains(layout, "04"); {
	case layout == "2006", layout == "2006-01":
		return t.Format(layout), nil
	case unix:
		return t.UTC().Format(time.RFC3339Nano), nil
	case !clock:
		return t.Format(time.DateOnly), nil
	case strings.Contains(layout, "-07"):
	case strings.Contains(layout, "MST"):
		name, _ := t.Zone()
		hours, known := namedZones[name]
		if !known {
			return "", fmt.Errorf("has the time zone %s, which means more than one or none; select one with an offset such as +02:00", name)
		}
		year, month, day := t.Date()
		zone := time.FixedZone("", hours*3600)
		t = time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone)
	case !strings.HasSuffix(layout, "Z"):
		return t.Format("2006-01-02T15:04:05.999999999"), nil
	}
	return t.Format(time.RFC3339Nano), nil
}

// layoutOf returns the layout of a date. If day and month could be swapped, dates with dots have the day first, and for
// dates with slashes the number above 12 decides; otherwise it returns errAmbiguous.
func layoutOf(s string) (string, error) {
	_, err := dateparse.ParseStrict(s)
	if !errors.Is(err, dateparse.ErrAmbiguousMMDD) {
		if layout, err := dateparse.ParseFormat(s); err == nil {
			return layout, nil
		}
		return "", errNoDate
	}
	day, noDay := dateparse.ParseFormat(s, dateparse.PreferMonthFirst(false))
	month, noMonth := dateparse.ParseFormat(s, dateparse.PreferMonthFirst(true))
	switch points := strings.Contains(day, "02.01."); {
	case noDay != nil && noMonth != nil:
		return "", errNoDate
	case noDay == nil && (noMonth != nil || points):
		return day, nil
	case noDay != nil:
		return month, nil
	}
	return "", errAmbiguous
}
