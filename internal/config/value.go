package config

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// A value has one of the types bool, int64 (int and size), float64 (rate and number), time.Duration, string (text and
// choice) and []string.

// parse parses a value as written in any layer. The error says what is wrong, but not where, and if possible what to
// write instead.
func (f *field) parse(s string) (any, error) {
	switch f.kind {
	case kindBool:
		return document.ParseBool(s, f.want())
	case kindInt:
		return document.ParseInt(s, f.want())
	case kindRate, kindNumber:
		return document.ParseFloat(s, f.want())
	case kindDuration:
		return f.parseDuration(s)
	case kindSize:
		n, err := humanize.ParseBytes(document.Ungroup(s))
		if err != nil || n > math.MaxInt64 {
			return nil, fmt.Errorf("%s is not a size; give %s", document.Quote(s), f.want())
		}
		return int64(n), nil
	default:
		return s, nil
	}
}

// ParseDuration parses a duration as [time.ParseDuration] does, and also in days of 24 hours and weeks of seven such
// days: 7d, 1w, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(longUnits().ReplaceAllStringFunc(s, func(part string) string {
		x, _ := strconv.ParseFloat(part[:len(part)-1], 64) // the pattern matches numbers
		if x *= 24; part[len(part)-1] == 'w' {
			x *= 7
		}
		return strconv.FormatFloat(x, 'f', -1, 64) + "h"
	}))
	if err != nil { // that error has the text with hours, which nobody wrote
		return 0, fmt.Errorf("invalid duration %q", s)
	}
	return d, nil
}

var longUnits = lazy.Regexp(`(?:\d+\.?\d*|\.\d+)[dw]`)

// parseDuration guesses what was meant by a number without a unit, the most common mistake.
func (f *field) parseDuration(s string) (any, error) {
	d, err := ParseDuration(s)
	if err == nil {
		return d, nil
	}
	x, numErr := strconv.ParseFloat(s, 64)
	// No guess for numbers that are no duration here: below zero, or above 68 years.
	if numErr == nil && x > 0 && x <= math.MaxInt32 {
		return nil, fmt.Errorf(`%s has no unit; write %q for seconds`, s, s+"s")
	}
	return nil, fmt.Errorf("%s is not a duration; give %s", document.Quote(s), f.want())
}

// format formats a value so that parse reads it back. Callers format lists item by item.
func (f *field) format(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		if f.kind == kindSize {
			return formatSize(v)
		}
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Duration:
		return ratelimit.Span(v)
	case []string: // for messages only
		return "[" + strings.Join(v, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// inRange compares a value with the bounds of its row. NaN, which only a program can set, is checked separately because
// it is neither below nor above anything.
func (f *field) inRange(v any) error {
	x, ok := number(v)
	if !ok || f.min == "" || x == 0 && f.zero != "" {
		return nil
	}
	// Bounds are parsed each time: a configuration is loaded once, and a table
	// without a second form of its bounds cannot contradict itself.
	lo, _ := number(f.bound(f.min))
	hi, _ := number(f.bound(f.max))
	switch {
	case math.IsNaN(x):
		return fmt.Errorf("NaN is not a number; give %s", f.want())
	case x < lo:
		return fmt.Errorf("%s is below %s; give %s", f.format(v), f.min, f.want())
	case x > hi:
		return fmt.Errorf("%s is above %s; give %s", f.format(v), f.max, f.want())
	}
	return nil
}

// bound parses a value of the table itself; a test ensures that this succeeds.
func (f *field) bound(s string) any {
	v, err := f.parse(cmp.Or(s, f.empty()))
	if err != nil {
		panic("config: table: " + f.path + ": " + err.Error())
	}
	return v
}

func (f *field) empty() string {
	switch f.kind {
	case kindBool:
		return "false"
	case kindInt, kindRate, kindNumber, kindDuration, kindSize:
		return "0"
	}
	return ""
}

// number returns a value as a float64, which is exact enough to compare it with a bound: all bounds are far below 2^53,
// up to which float64 is exact for integers.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case time.Duration:
		return float64(v), true
	}
	return 0, false
}

var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}}

func formatSize(n int64) string {
	best, name := n, "B"
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 && n/u.bytes < best {
			best, name = n/u.bytes, u.name
		}
	}
	return strconv.FormatInt(best, 10) + name
}
