package config

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdicts maps inputs to messages; an empty message accepts.
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
		"":                          "",
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
	runCheck(t, expression, map[string]string{
		`^https?://[^/]+/docs/`: "",
		"":                      `is empty and would match every URL; remove it or give a regular expression`,
		"(":                     `"(" is not a regular expression (missing closing ): "("); see the syntax of Go's regexp package`,
		"a{1001}":               `"a{1001}" is not a regular expression (invalid repeat count: "{1001}"); see the syntax of Go's regexp package`,
		"(?<=a)b":               `"(?<=a)b" is not a regular expression (invalid named capture: "(?<=a)b"); see the syntax of Go's regexp package`,
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
