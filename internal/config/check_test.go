package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func runCheck(t *testing.T, check func(string) error, verdicts map[string]string) {
	t.Helper()
	for in, want := range verdicts {
		err := check(in)
		if want == "" {
			require.NoError(t, err, "%q", in)
			continue
		}
		require.EqualError(t, err, want, "%q", in)
	}
}

func TestHeader(t *testing.T) {
	runCheck(t, header, map[string]string{
		"Accept-Language: en":   "",
		"X-A:b":                 "",
		"Cookie: a=b; c=d":      "",
		"X-Tab: a\tb":           `"X-Tab" has a value with control characters, or one that is too long; write it on one line`,
		"X-A: b\r\nEvil: yes":   `"X-A" has a value with control characters, or one that is too long; write it on one line`,
		"X-A: b\nEvil: yes":     `"X-A" has a value with control characters, or one that is too long; write it on one line`,
		"X-A: b\x00":            `"X-A" has a value with control characters, or one that is too long; write it on one line`,
		"X A: b":                `has a name that is not a header name; write "Name: value" with letters, digits and dashes in the name`,
		"X-A\r\nEvil: b":        `has a name that is not a header name; write "Name: value" with letters, digits and dashes in the name`,
		": b":                   `has a name that is not a header name; write "Name: value" with letters, digits and dashes in the name`,
		"":                      `has no colon; write "Name: value"`,
		"Bearer secret":         `has no colon; write "Name: value"`,
		"X-A:  ":                `"X-A" has no value; write "X-A: value" or remove the line`,
		"Host: other.example":   `"Host" is the crawler's own to set; remove it`,
		"content-length: 5":     `"content-length" is the crawler's own to set; remove it`,
		"Transfer-Encoding: x":  `"Transfer-Encoding" is the crawler's own to set; remove it`,
		"user-agent: x":         `User-Agent is set by fetch.user_agent (--user-agent); write it there`,
		"TE: trailers":          `"TE" is the crawler's own to set; remove it`,
		"Accept-Encoding: gzip": `"Accept-Encoding" is the crawler's own to set; remove it`,
	})
	require.Error(t, header("X-A: "+strings.Repeat("x", textMax+1)))
}

func TestHeaderMessagesKeepSecrets(t *testing.T) {
	for _, line := range []string{
		"Authorization Bearer hunter2", "Authorization: hunter2\n", "Authoriz ation: hunter2",
		"Authorization: hunter2\x00", "Authorization: hunter2" + strings.Repeat("x", textMax),
	} {
		_, err := Load(Sources{Flags: []FlagValue{{Name: "header", Value: line}}})
		if err == nil { // a trailing line end is trimmed
			continue
		}
		require.NotContains(t, err.Error(), "hunter2", "%q", line)
	}
}

func TestRedactBrowser(t *testing.T) {
	for in, want := range map[string]string{
		"/opt/chromium/chrome?":                  "/opt/chromium/chrome?",
		"ws://127.0.0.1:9222":                    "ws://127.0.0.1:9222",
		"wss://browser.test/x?token=hunter2&a=b": "wss://browser.test/x?REDACTED",
		"wss://me:hunter2@browser.test?k=1":      "wss://REDACTED@browser.test?REDACTED",
		"wss://browser.test/#hunter2":            "wss://browser.test/#REDACTED",
		"":                                       "",
	} {
		require.Equal(t, want, redactBrowser(in))
		require.Equal(t, strings.Contains(want, redacted), errors.Is(browserProgram(want), errPrinted), "what is printed is no secret")
		require.NoError(t, browserProgram(in))
	}
	src := yamlFile("render: {browser: 'wss://browser.test/?token=hunter2'}")
	var y bytes.Buffer
	require.NoError(t, mustLoad(t, src).WriteYAML(&y))
	require.NotContains(t, y.String(), "hunter2")
}

func TestRedactHeader(t *testing.T) {
	for in, want := range map[string]string{
		"Authorization: Bearer x":   "Authorization: REDACTED",
		"proxy-authorization:x":     "proxy-authorization: REDACTED",
		"Cookie: sid=1":             "Cookie: REDACTED",
		"X-Api-Key: 1":              "X-Api-Key: REDACTED",
		"X-Auth-Token: 1":           "X-Auth-Token: REDACTED",
		"X-Client-Secret: 1":        "X-Client-Secret: REDACTED",
		"X-Amz-Signature: 1":        "X-Amz-Signature: REDACTED",
		"Accept-Language: en":       "Accept-Language: en",
		"Referer: https://a.test/":  "Referer: https://a.test/",
		"no colon, maybe a secret?": "REDACTED",
	} {
		require.Equal(t, want, redactHeader(in))
		if strings.Contains(in, ":") {
			require.NoError(t, header(redactHeader(in)), "what is printed can be loaded")
		}
	}
}

func TestHostPattern(t *testing.T) {
	runCheck(t, hostPattern, map[string]string{
		"example.com":            "",
		"*.example.com":          "",
		"example.com:8080":       "",
		"*.example.com:8080":     "",
		"localhost":              "",
		"under_score.test":       "",
		"xn--mnchen-3ya.de":      "",
		"192.0.2.1":              "",
		"192.0.2.1:8080":         "",
		"[2001:db8::1]":          "",
		"[2001:db8::1]:8080":     "",
		"":                       `is empty; give a host such as example.com or *.example.com`,
		"Example.COM":            `"Example.COM" is not how the host is named; write "example.com"`,
		"*.Example.com":          `"*.Example.com" is not how the host is named; write "*.example.com"`,
		"example.com.":           `"example.com." is not how the host is named; write "example.com"`,
		"münchen.de":             `"münchen.de" is not how the host is named; write "xn--mnchen-3ya.de"`,
		"2001:db8::1":            `"2001:db8::1" is not how the host is named; write "[2001:db8::1]"`,
		"[2001:DB8:0::1]:8080":   `"[2001:DB8:0::1]:8080" is not how the host is named; write "[2001:db8::1]:8080"`,
		"example.com:80":         `"example.com:80" names a default port; write it without :80`,
		"example.com:443":        `"example.com:443" names a default port; write it without :443`,
		"example.com:99999":      `"example.com:99999" has a port that is none; give 1 to 65535`,
		"example.com:0":          `"example.com:0" has a port that is none; give 1 to 65535`,
		"example.com:08080":      `"example.com:08080" has a port that is none; give 1 to 65535`,
		"example.com:http":       `"example.com:http" has a port that is none; give 1 to 65535`,
		"*.192.0.2.1":            `"*.192.0.2.1" has a wildcard before an address; only names have names below them`,
		"https://example.com":    `"https://example.com" is more than a host; leave out scheme and path`,
		"https://example.com/":   `"https://example.com/" is more than a host; leave out scheme and path`,
		"example.com/path":       `"example.com/path" is more than a host; leave out scheme and path`,
		"ex*mple.com":            `"ex*mple.com" is not a host; give one such as example.com, *.example.com or 192.0.2.1:8080`,
		"*":                      `"*" is not a host; give one such as example.com, *.example.com or 192.0.2.1:8080`,
		"*.":                     `"*." is not a host; give one such as example.com, *.example.com or 192.0.2.1:8080`,
		"a b.test":               `"a b.test" is not a host; give one such as example.com, *.example.com or 192.0.2.1:8080`,
		"example.com:":           `"example.com:" is not a host; give one such as example.com, *.example.com or 192.0.2.1:8080`,
		"example.com\n":          `contains the unprintable character U+000A; remove it`,
		strings.Repeat("a", 5e3): `is 5000 bytes long; give at most 4096`,
	})
}

func TestContact(t *testing.T) {
	neither := func(s string) string {
		return `"` + s + `" is neither; give a URL such as https://example.com/bot or a mail address`
	}
	runCheck(t, contact, map[string]string{
		"https://example.com/bot":   "",
		"http://example.com":        "",
		"bot@example.com":           "",
		"mailto:bot@example.com":    "",
		"me":                        neither("me"),
		"ftp://example.com/":        neither("ftp://example.com/"),
		"https:///bot":              neither("https:///bot"),
		"Bot <bot@example.com>":     neither("Bot <bot@example.com>"),
		"https://example.com/a(b)":  neither("https://example.com/a(b)"),
		"https://example.com/a b":   neither("https://example.com/a b"),
		"https://example.com/\r\nX": `contains the unprintable character U+000D; remove it`,
		"https://exämple.com/":      `contains 'ä'; a header is plain ASCII`,
		" https://example.com/":     `begins or ends with a space; remove it`,
	})
}

func TestTexts(t *testing.T) {
	runCheck(t, printable, map[string]string{
		"": "", "päth/with space": "", "日本": "",
		"a\tb":        `contains the unprintable character U+0009; remove it`,
		"a\u2028b":    `contains the unprintable character U+2028; remove it`,
		"a\u202eb":    `contains the unprintable character U+202E; remove it`,
		"\x1b[31mred": `contains the unprintable character U+001B; remove it`,
		"\xff":        `is not valid UTF-8; write it in that encoding`,
	})
	runCheck(t, fileName, map[string]string{"-": "", "a.jsonl": "", "": `is empty; give a file name, or - for standard output`})
	runCheck(t, parses(expression), map[string]string{
		`^https?://[^/]+/docs/`: "",
		"":                      `is empty and would match every URL; remove it or give a regular expression`,
		"(":                     `"(" is not a regular expression (missing closing ): "("); see the syntax of Go's regexp package, or write \.pdf$ for *.pdf`,
		"a{1001}":               `"a{1001}" is not a regular expression (invalid repeat count: "{1001}"); see the syntax of Go's regexp package, or write \.pdf$ for *.pdf`,
		"(?<=a)b":               `"(?<=a)b" is not a regular expression (invalid named capture: "(?<=a)b"); see the syntax of Go's regexp package, or write \.pdf$ for *.pdf`,
	})
	runCheck(t, powerOfTwo, map[string]string{
		"1": "", "2": "", "4096": "", "0": "", "-4": "",
		"3": "3 is not a power of two; give 2 or 4", "100": "100 is not a power of two; give 64 or 128",
	})
}

func TestAgent(t *testing.T) {
	for _, c := range []struct {
		fetch         Fetch
		version, want string
	}{
		{Fetch{}, "1.2.3", "Treadlight/1.2.3"},
		{Fetch{}, "", "Treadlight"},
		{Fetch{}, "(devel)", "Treadlight/devel"},
		{Fetch{}, "v1.0.0-rc.1+dirty\r\nX: y", "Treadlight/v1.0.0-rc.1+dirtyXy"},
		{Fetch{Contact: "https://example.com/bot"}, "1.0", "Treadlight/1.0 (+https://example.com/bot)"},
		{Fetch{UserAgent: "Own/2", Contact: "a@b.test"}, "1.0", "Own/2"},
	} {
		require.Equal(t, c.want, c.fetch.Agent(c.version))
		require.NoError(t, headerText(c.want))
	}
}

// FuzzHostPattern asserts that what a message offers in place of a wrong spelling is
// accepted, and that no accepted match has two spellings of its case.
func FuzzHostPattern(f *testing.F) {
	for _, s := range []string{"Example.COM", "*.münchen.de", "2001:db8::1", "[::FFFF:1.2.3.4]:81", "a.b.:9", "xn--a", `ü"`, "..", strings.Repeat("z", 250) + "ü", "*.１.２.３.４"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := hostPattern(s)
		if err == nil {
			if s != strings.ToLower(s) {
				t.Fatalf("hostPattern(%q) accepts capitals", s)
			}
			return
		}
		_, quoted, ok := strings.Cut(err.Error(), " is not how the host is named; write ")
		if !ok {
			return
		}
		offer, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("hostPattern(%q) offers %s, not a quoted text", s, quoted)
		}
		if err := hostPattern(offer); err != nil {
			t.Fatalf("hostPattern(%q) offers %q, which is refused: %v", s, offer, err)
		}
	})
}

func TestBudget(t *testing.T) {
	const noNumber = ` does not begin with a number of pages; give "N REGEXP" for so many of each host, or "N/crawl REGEXP" for so many of all hosts together`
	runCheck(t, parses(ParseBudget), map[string]string{
		`500 ^https://[^/]+/calendar/`: "",
		"1 .":                          "",
		"1_000 .":                      "",
		"1000000000/crawl a b":         "",
		"5/host .":                     "",
		"1000000001 .":                 `"1000000001 ." is more than a crawl can have; give at most 1000000000 pages`,
		"0 /x":                         `"0 /x" leaves nothing; give a number of pages from 1 up, or leave such URLs out with scope.exclude (--exclude)`,
		"":                             `""` + noNumber,
		"-1 /x":                        `"-1 /x"` + noNumber,
		"/x 5":                         `"/x 5"` + noNumber,
		"1.5 /x":                       `"1.5 /x"` + noNumber,
		" 5 /x":                        `" 5 /x"` + noNumber,
		"5/ /x":                        `"5/ /x"` + noNumber,
		"5/day /x":                     `"5/day /x"` + noNumber,
		"5/crawl":                      "is empty and would match every URL; remove it or give a regular expression",
		"5  ":                          "is empty and would match every URL; remove it or give a regular expression",
		"5 (":                          `"(" is not a regular expression (missing closing ): "("); see the syntax of Go's regexp package, or write \.pdf$ for *.pdf`,
	})
}

func TestParseBudget(t *testing.T) {
	for text, want := range map[string]string{
		"5 /x":           "5 false /x",
		"5/host /x":      "5 false /x",
		"1_0/crawl  /x ": "10 true /x",
	} {
		b := must(ParseBudget(text))
		require.Equal(t, want, fmt.Sprint(b.MaxPages, b.PerCrawl, b.Match))
	}
}

// From wherever they come, budgets are kept in their order and named in messages.
func TestBudgetsAreLoaded(t *testing.T) {
	want := []string{`500 /cal/`, `9/crawl \?page=`}
	for _, src := range []Sources{
		yamlFile("scope: {budgets: ['500 /cal/', '9/crawl \\?page=']}"),
		{Env: []string{"CRAWL_SCOPE_BUDGETS=" + strings.Join(want, "\n")}},
		{Flags: flags("set", "scope.budgets="+want[0], "set", "scope.budgets="+want[1])},
	} {
		saved := first(t, src)
		require.Equal(t, want, saved.Scope.Budgets)
		require.Equal(t, want, mustLoad(t, Sources{Saved: saved}).Config.Scope.Budgets)
		require.Equal(t, []string{"1 x"}, mustLoad(t, Sources{Saved: saved, Flags: flags("set", "scope.budgets=1 x")}).Config.Scope.Budgets, "other ones when it goes on")
	}
	_, err := Load(Sources{Flags: flags("set", "scope.budgets=5 /x", "set", "scope.budgets=/x")})
	require.ErrorContains(t, err, `scope.budgets[1]: "/x" does not begin with a number of pages; `)
	require.ErrorContains(t, err, "[flag --set scope.budgets]")
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		path, in string
		want     any
	}{
		{"robots.enabled", "true", true},
		{"robots.enabled", "no", false},
		{"concurrency", "64", int64(64)},
		{"concurrency", "1_000", int64(1000)},
		{"depth", "-1", int64(-1)},
		{"ratelimit.max_rps", "0.5", 0.5},
		{"ratelimit.max_rps", "1e2", 100.0},
		{"ratelimit.max_rps", "1_000.5", 1000.5},
		{"ratelimit.global_rps", "-0", 0.0},
		{"fetch.timeout", "1m30s", 90 * time.Second},
		{"max_time", "7d", 7 * 24 * time.Hour},
		{"max_time", "1w1.5d12h", 9 * 24 * time.Hour},
		{"max_time", "0", time.Duration(0)},
		{"max_time", "0s", time.Duration(0)},
		{"fetch.max_body", "0", int64(0)},
		{"output.path", " a b ", " a b "},
	} {
		got, err := row(c.path).parse(c.in)
		require.NoError(t, err, "%s: %q", c.path, c.in)
		require.Equal(t, c.want, got, "%s: %q", c.path, c.in)
	}
}

func TestParseErrorsNameTheFix(t *testing.T) {
	for _, c := range []struct{ path, in, want string }{
		{"robots.enabled", "maybe", `"maybe" is neither; give true or false`},
		{"concurrency", "many", `"many" is not a whole number; give a whole number of fetches between 1 and 10000`},
		{"max_pages", "99999999999999999999", `99999999999999999999 is out of range; give a whole number of pages between 1 and 1000000000000, or 0 for no limit`},
		{"ratelimit.max_rps", "NaN", `"NaN" is not a number; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.max_rps", "Inf", `"Inf" is out of range; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.max_rps", "-inf", `"-inf" is out of range; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.max_rps", "1e999", `1e999 is out of range; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.max_rps", "fast", `"fast" is not a number; give a rate in requests per second between 0.001 and 1000000`},
		{"ratelimit.aimd_decrease", "x", `"x" is not a number; give a factor between 0.01 and 0.99`},
		{"fetch.timeout", "30", `30 has no unit; write "30s" for seconds`},
		{"fetch.timeout", "1.5", `1.5 has no unit; write "1.5s" for seconds`},
		{"fetch.timeout", "2m1", `"2m1" is not a duration; give a duration with its unit, such as 1m30s, between 100ms and 1h`},
		{"fetch.timeout", "99999999w", `"99999999w" is not a duration; give a duration with its unit, such as 1m30s, between 100ms and 1h`},
		{"fetch.timeout", "-5", `-5 is not a duration; give a duration with its unit, such as 1m30s, between 100ms and 1h`},
		{"fetch.timeout", "soon", `"soon" is not a duration; give a duration with its unit, such as 1m30s, between 100ms and 1h`},
		{"fetch.timeout", "9999999999h", `"9999999999h" is not a duration; give a duration with its unit, such as 1m30s, between 100ms and 1h`},
		{"fetch.max_body", "-1MB", `"-1MB" is not a size; give a size such as 10MiB between 1KiB and 4GiB`},
	} {
		_, err := row(c.path).parse(c.in)
		require.EqualError(t, err, c.want, "%s: %q", c.path, c.in)
	}
}

func TestInRange(t *testing.T) {
	for _, c := range []struct {
		path string
		v    any
		want string // empty: in range
	}{
		{"concurrency", int64(10_000), ""},
		{"concurrency", int64(0), "0 is below 1; give a whole number of fetches between 1 and 10000"},
		{"concurrency", int64(10_001), "10001 is above 10000; give a whole number of fetches between 1 and 10000"},
		{"max_pages", int64(0), ""},
		{"max_pages", int64(-1), "-1 is below 1; give a whole number of pages between 1 and 1000000000000, or 0 for no limit"},
		{"ratelimit.max_rps", 0.0, "0 is below 0.001; give a rate in requests per second between 0.001 and 1000000"},
		{"ratelimit.max_rps", math.NaN(), "NaN is not a number; give a rate in requests per second between 0.001 and 1000000"},
		{"ratelimit.max_rps", math.Inf(1), "+Inf is above 1000000; give a rate in requests per second between 0.001 and 1000000"},
		{"ratelimit.global_rps", 0.0, ""},
		{"ratelimit.global_rps", 0.0001, "0.0001 is below 0.001; give a rate in requests per second between 0.001 and 1000000, or 0 for no limit"},
		{"ratelimit.error_rate_threshold", 1.1, "1.1 is above 1; give a fraction between 0.01 and 1"},
		{"fetch.timeout", time.Hour + 1, "1h0m0.000000001s is above 1h; give a duration with its unit, such as 1m30s, between 100ms and 1h"},
		{"max_blocked", time.Duration(0), ""},
		{"fetch.max_body", int64(1023), "1023B is below 1KiB; give a size such as 10MiB between 1KiB and 4GiB"},
		{"output.path", "", ""},
	} {
		err := row(c.path).inRange(c.v)
		if c.want == "" {
			require.NoError(t, err, "%s: %v", c.path, c.v)
			continue
		}
		require.EqualError(t, err, c.want, "%s: %v", c.path, c.v)
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
		got, err := row("fetch.max_body").parse(c.in)
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, got, c.in)
		require.Equal(t, c.out, formatSize(got.(int64)), c.in)
	}
	for _, bad := range []string{"", "MiB", "B", "-1", "+1", "1e3", "1.2.3MB", "NaN", "Inf", "0x10", "1 0", ".", "9223372036854775808", "8388608TiB", "9999999.5TiB"} {
		_, err := row("fetch.max_body").parse(bad)
		require.ErrorContains(t, err, "is not a size; give a size such as 10MiB", bad)
	}
}

// The flags of a setting whose values are masked are told from others; what is masked without a flag is so by --set.
func TestSecretFlags(t *testing.T) {
	masked := map[string]bool{} // by path, whether there is a flag for it
	for _, f := range fields() {
		if f.redact != nil {
			masked[f.path] = f.flag != ""
		}
		require.Equal(t, f.redact != nil, FlagValue{Name: "set", Value: f.path + "=hush"}.Secret(), f.path)
	}
	require.Equal(t, map[string]bool{"fetch.headers": true, "access.auth": true, "access.proxy": true, "listen.token": false, "fleet.redis": true, "render.browser": true, "traces.headers": false}, masked)
	for _, f := range Flags() {
		require.Equal(t, masked[f.Path] && f.Arg != "file", FlagValue{Name: f.Name, Value: "hush"}.Secret(), f.Name)
	}
	for _, v := range []FlagValue{{}, {"set", ""}, {"set", "fleet.redi=hush"}, {"unknown", "hush"}} {
		require.False(t, v.Secret(), v)
	}
}
