package config

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func row(t *testing.T, path string) *field {
	t.Helper()
	f := find(fields(), path)
	require.NotNil(t, f, path)
	return f
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		path, in string
		want     any
	}{
		{"robots.enabled", "true", true},
		{"robots.enabled", "Yes", true},
		{"robots.enabled", "ON", true},
		{"robots.enabled", "1", true},
		{"robots.enabled", "no", false},
		{"robots.enabled", "Off", false},
		{"robots.enabled", "0", false},
		{"concurrency", "64", int64(64)},
		{"concurrency", "1_000", int64(1000)},
		{"concurrency", "010", int64(10)},
		{"concurrency", "+5", int64(5)},
		{"depth", "-1", int64(-1)},
		{"ratelimit.max_rps", "0.5", 0.5},
		{"ratelimit.max_rps", "1e2", 100.0},
		{"ratelimit.max_rps", "1_000.5", 1000.5},
		{"ratelimit.global_rps", "-0", 0.0},
		{"fetch.timeout", "1m30s", 90 * time.Second},
		{"max_time", "0", time.Duration(0)},
		{"max_time", "0s", time.Duration(0)},
		{"fetch.max_body", "0", int64(0)},
		{"fetch.max_body", "1024", int64(1024)},
		{"fetch.max_body", "10MiB", int64(10 << 20)},
		{"output.path", " a b ", " a b "},
	} {
		got, err := row(t, c.path).parse(c.in)
		require.NoError(t, err, "%s: %q", c.path, c.in)
		require.Equal(t, c.want, got, "%s: %q", c.path, c.in)
	}
}

func TestParseErrorsNameTheFix(t *testing.T) {
	for _, c := range []struct{ path, in, want string }{
		{"robots.enabled", "maybe", `"maybe" is neither; give true or false`},
		{"robots.enabled", "", `"" is neither; give true or false`},
		{"concurrency", "many", `"many" is not a whole number; give a whole number of fetches between 1 and 10000`},
		{"concurrency", "1.5", `1.5 is not a whole number; give a whole number of fetches between 1 and 10000`},
		{"concurrency", "0x10", `"0x10" is not a whole number; give a whole number of fetches between 1 and 10000`},
		{"concurrency", "_1", `_1 is not a whole number; give a whole number of fetches between 1 and 10000`},
		{"concurrency", "1__0", `1__0 is not a whole number; give a whole number of fetches between 1 and 10000`},
		{"max_pages", "99999999999999999999", `99999999999999999999 is out of range; give a whole number of pages between 1 and 1000000000000, or 0 for no limit`},
		{"ratelimit.max_rps", "NaN", `"NaN" is not a number; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.max_rps", "Inf", `"Inf" is out of range; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.max_rps", "-inf", `"-inf" is out of range; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.max_rps", "1e999", `1e999 is out of range; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.max_rps", "fast", `"fast" is not a number; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.aimd_decrease", "x", `"x" is not a number; give a factor between 0.01 and 0.99`},
		{"fetch.timeout", "30", `30 has no unit; write "30s" for seconds`},
		{"fetch.timeout", "1.5", `1.5 has no unit; write "1.5s" for seconds`},
		{"fetch.timeout", "2d", `2d is in days; write "48h"`},
		{"fetch.timeout", "-5", `-5 is not a duration; give a duration with its unit, such as 1m30s, between 100ms and 1h`},
		{"fetch.timeout", "soon", `"soon" is not a duration; give a duration with its unit, such as 1m30s, between 100ms and 1h`},
		{"fetch.timeout", "9999999999h", `"9999999999h" is not a duration; give a duration with its unit, such as 1m30s, between 100ms and 1h`},
		{"fetch.max_body", "huge", `"huge" is not a size; give a size such as 10MiB between 1KiB and 4GiB`},
		{"fetch.max_body", "-1MB", `"-1MB" is not a size; give a size such as 10MiB between 1KiB and 4GiB`},
		{"fetch.max_body", "99999999TiB", `"99999999TiB" is not a size; give a size such as 10MiB between 1KiB and 4GiB`},
	} {
		_, err := row(t, c.path).parse(c.in)
		require.EqualError(t, err, c.want, "%s: %q", c.path, c.in)
	}
}

func TestInRange(t *testing.T) {
	for _, c := range []struct {
		path string
		v    any
		want string // empty: in range
	}{
		{"concurrency", int64(1), ""},
		{"concurrency", int64(10_000), ""},
		{"concurrency", int64(0), "0 is below 1; give a whole number of fetches between 1 and 10000"},
		{"concurrency", int64(10_001), "10001 is above 10000; give a whole number of fetches between 1 and 10000"},
		{"depth", int64(-1), ""},
		{"depth", int64(-2), "-2 is below -1; give a whole number of links between -1 and 1000000"},
		{"max_pages", int64(0), ""},
		{"max_pages", int64(-1), "-1 is below 1; give a whole number of pages between 1 and 1000000000000, or 0 for no limit"},
		{"ratelimit.max_rps", 0.001, ""},
		{"ratelimit.max_rps", 0.0, "0 is below 0.001; give a rate in requests per second between 0.001 and 1000000"},
		{"ratelimit.max_rps", math.NaN(), "NaN is not a number; give a rate in requests per second between 0.001 and 1000000"},
		{"ratelimit.max_rps", math.Inf(1), "+Inf is above 1000000; give a rate in requests per second between 0.001 and 1000000"},
		{"ratelimit.global_rps", 0.0, ""},
		{"ratelimit.global_rps", 0.0001, "0.0001 is below 0.001; give a rate in requests per second between 0.001 and 1000000, or 0 for no limit"},
		{"ratelimit.error_rate_threshold", 1.0, ""},
		{"ratelimit.error_rate_threshold", 1.1, "1.1 is above 1; give a fraction between 0.01 and 1"},
		{"fetch.timeout", 100 * time.Millisecond, ""},
		{"fetch.timeout", time.Hour + 1, "1h0m0.000000001s is above 1h; give a duration with its unit, such as 1m30s, between 100ms and 1h"},
		{"fetch.timeout", -time.Second, "-1s is below 100ms; give a duration with its unit, such as 1m30s, between 100ms and 1h"},
		{"max_blocked", time.Duration(0), ""},
		{"fetch.max_body", int64(1023), "1023B is below 1KiB; give a size such as 10MiB between 1KiB and 4GiB"},
		{"output.path", "", ""},
	} {
		err := row(t, c.path).inRange(c.v)
		if c.want == "" {
			require.NoError(t, err, "%s: %v", c.path, c.v)
			continue
		}
		require.EqualError(t, err, c.want, "%s: %v", c.path, c.v)
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Second: "1s", time.Minute: "1m", 5 * time.Minute: "5m", time.Hour: "1h",
		90 * time.Minute: "1h30m", 10 * time.Second: "10s", time.Hour + 10*time.Second: "1h0m10s",
		100 * time.Hour: "100h", 1500 * time.Millisecond: "1.5s", 10 * time.Minute: "10m", -time.Minute: "-1m",
	} {
		require.Equal(t, want, formatDuration(d))
		back, err := time.ParseDuration(want)
		require.NoError(t, err)
		require.Equal(t, d, back)
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		out  string
	}{
		{"0", 0, "0B"},
		{"1", 1, "1B"},
		{"1500", 1500, "1500B"},
		{"1KiB", 1024, "1KiB"},
		{"1kb", 1000, "1KB"},
		{"10MB", 10_000_000, "10MB"},
		{"10 MiB", 10 << 20, "10MiB"},
		{"1.5gib", 3 << 29, "1536MiB"},
		{"0.5KiB", 512, "512B"},
		{"1_000", 1000, "1KB"},
		{"7B", 7, "7B"},
		{"2TiB", 2 << 40, "2TiB"},
		{"1.9999B", 1, "1B"},
	} {
		got, err := row(t, "fetch.max_body").parse(c.in)
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, got, c.in)
		require.Equal(t, c.out, formatSize(got.(int64)), c.in)
	}
	for _, bad := range []string{"", "MiB", "B", "-1", "+1", "1e3", "1.2.3MB", "NaN", "Inf", "0x10", "1 0", ".", "9223372036854775808", "8388608TiB", "9999999.5TiB"} {
		_, err := row(t, "fetch.max_body").parse(bad)
		require.ErrorContains(t, err, "is not a size; give a size such as 10MiB", bad)
	}
}
