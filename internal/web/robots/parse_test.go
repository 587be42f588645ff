package robots_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
	codes "unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/robots"
)

const agent = "Treadlight"

// utf16 is text as servers that run on Windows may send it.
func utf16(order binary.AppendByteOrder, text string) string {
	var out []byte
	for _, unit := range codes.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

func rulesOf(file string) *robots.Rules { return robots.Parse([]byte(file)).Agent(agent) }

// TestGroups is about which rules bind us, beyond what TestGoogle has: the path is always /x, and a file refuses it if its
// rules for us say so.
func TestGroups(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		allowed    bool
	}{
		{"everybody", "User-agent: *\nDisallow: /", false},
		{"us, with a version", "User-agent: Treadlight/1.2\nDisallow: /", false},
		{"us, with a comment", "User-agent: Treadlight (the crawler)\nDisallow: /", false},
		{"a longer name", "User-agent: TreadlightNews\nDisallow: /", true},
		{"a name with a number", "User-agent: Treadlight2\nDisallow: /", true},
		{"a shorter name", "User-agent: Tread\nDisallow: /", true},
		{"a name with a tail", "User-agent: Treadlight-News\nDisallow: /", true},
		{"no name", "User-agent:\nDisallow: /", true},
		{"our group goes before everybody's, even if it is first", "User-agent: treadlight\nAllow: /\nUser-agent: *\nDisallow: /", true},
		{"even if it is empty", "User-agent: *\nDisallow: /\nUser-agent: treadlight", true},
		{"even if it only has a delay", "User-agent: treadlight\nCrawl-delay: 1\nAllow: /y\nUser-agent: *\nDisallow: /", true},
		{"everybody's groups are merged", "User-agent: *\nDisallow: /y\nUser-agent: o\nAllow: /\nUser-agent: *\nDisallow: /x", false},
		{"with blank lines and comments between", "User-agent: treadlight\n\n# x\nUser-agent: other\n\nDisallow: /", false},
		{"with a delay between", "User-agent: treadlight\nCrawl-delay: 5\nUser-agent: other\nDisallow: /", false},
		{"a rule ends the list", "User-agent: treadlight\nAllow: /\nUser-agent: other\nDisallow: /", true},
		{"an empty rule ends it too", "User-agent: treadlight\nDisallow:\nUser-agent: other\nDisallow: /", true},
		{"an unknown line does not end a group", "User-agent: treadlight\nAllow: /y\nWhatever: 1\nDisallow: /x", false},
		{"a blank line does not end a group", "User-agent: treadlight\nAllow: /y\n\nDisallow: /x", false},
		{"a rule before any group", "Disallow: /\nUser-agent: other\nDisallow: /", true},
		{"star and a comment", "User-agent: * (everybody)\nDisallow: /", false},
		{"star and a tab", "User-agent: *\tall\nDisallow: /", false},
		{"names ending in bot", "User-agent: *bot\nDisallow: /", true},
		{"names with WordPress in them", "User-agent: *WordPress*\nDisallow: /", true},
		{"two stars", "User-agent: **\nDisallow: /", true},
		{"a path for an agent", "User-agent: */\nDisallow: /", true},
		{"a pattern does not end everybody's group", "User-agent: *\nUser-agent: *WordPress*\nDisallow: /", false},
		{"UTF-16, little end first", utf16(binary.LittleEndian, "\ufeffUser-agent: *\r\nDisallow: /\r\n"), false},
		{"UTF-16, big end first", utf16(binary.BigEndian, "\ufeffUser-agent: *\nDisallow: /"), false},
		{"UTF-16, cut within a character", utf16(binary.BigEndian, "\ufeffUser-agent: *\nDisallow: /\n") + "\x00", false},
		{"UTF-16, beyond ASCII", utf16(binary.LittleEndian, "\ufeff# ツ ü\nUser-agent: *\nDisallow: /"), false},
		{"UTF-16 for somebody else", utf16(binary.LittleEndian, "\ufeffUser-agent: Other\nDisallow: /"), true},
		{"CR line ends", "User-agent: *\rDisallow: /\r", false},
		{"CR LF line ends", "User-agent: *\r\nDisallow: /\r\n", false},
		{"byte order mark", "\xef\xbb\xbfUser-agent: *\nDisallow: /", false},
		{"part of one", "\xef\xbbUser-agent: *\nDisallow: /", false},
		{"NUL padding", "User-agent: *\x00\x00\nDisallow: /\x00\x00\n\x00\x00", false},
		{"blanks", " \t User-agent \t : \t * \t \n\tDisallow :/ ", false},
		{"comment at the end", "User-agent: * # all\nDisallow: / # everything", false},
		{"rule in a comment", "User-agent: *\n#Disallow: /", true},
		{"missing colon, two words", "User-agent *\nDisallow /x y", true},
		{"missing colon, colon in the path", "User-agent *\nDisallow /x:y\nDisallow /x", false},
		{"misspelt", "Useragent: *\nDissallow: /", false},
		{"bad lines around", "<html>\nUser-agent: *\n::::\n:\nDisallow: /\n\xff\xfe", false},
		{"an HTML page", "<!DOCTYPE html><html><body>Disallow: /</body></html>", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := rulesOf(tc.file).Check("/x")
			require.Equal(t, tc.allowed, v.Allowed, v.Reason)
		})
	}
}

func TestCrawlDelay(t *testing.T) {
	for want, values := range map[time.Duration][]string{
		10 * time.Second:              {"10", "10#"},
		500 * time.Millisecond:        {"0.5"},
		250 * time.Millisecond:        {".25"},
		2 * time.Second:               {"2."},
		time.Second + time.Nanosecond: {"1.0000000019"},
		7 * time.Second:               {"00000000000000000000007"},
		5 * time.Second:               {"5 # seconds"},
		24 * time.Hour:                {"86400", "86401", "99999999999"},
		0:                             {"0", "1e3", "-5", "+5", "NaN", "Inf", "0x10", "1.2.3", "10s", "ten", ".", ""},
	} {
		for _, value := range values {
			require.Equal(t, want, rulesOf("User-agent: *\nCrawl-delay: "+value).Pause(), value)
		}
	}
	require.Equal(t, 3*time.Second, rulesOf("User-agent: *\nCrawl-delay: 3\nUser-agent: b\nCrawl-delay: 2").Pause(), "the longest of a group")
	require.Zero(t, rulesOf("Crawl-delay: 3\nUser-agent: *\nAllow: /").Pause(), "before any group")
	require.Equal(t, 3*time.Second, rulesOf("User-agent: *\nCrawl-delay: 3\nUser-agent: treadlight\nAllow: /").Pause(), "a list goes on")
	require.True(t, (*robots.Rules)(nil).Check("/").Allowed)
}

func TestRequestRate(t *testing.T) {
	for line := range cases(t, "request-rate.txt") {
		var value, pause string
		_, err := fmt.Sscanf(line, "%q %s", &value, &pause)
		require.NoError(t, err, line)
		want, err := time.ParseDuration(pause)
		require.NoError(t, err, line)
		r := rulesOf("User-agent: *\nRequest-rate: " + value)
		require.Equal(t, want, r.Pause(), value)
	}
	require.Equal(t, 5*time.Second, rulesOf("User-agent: *\nrequest-rate: 1/5\nRequest-Rate: 1/2").Pause(), "the slowest of a group")
	require.Equal(t, 5*time.Second, rulesOf("User-agent: *\nRequest-rate: 1/5 0600-0845\nRequest-rate: 9/1 0845-0600").Pause(), "around the clock")
	require.Zero(t, rulesOf("Request-rate: 1/3\nUser-agent: *\nAllow: /").Pause(), "before any group")
	require.Equal(t, 3*time.Second, rulesOf("User-agent: *\nRequest-rate: 1/3\nUser-agent: treadlight\nAllow: /").Pause(), "a list goes on")
	require.Zero(t, rulesOf("User-agent: *\nRequest-rate: 1/9\nAllow: /\nUser-agent: treadlight\nAllow: /").Pause(), "another's group")
	require.Equal(t, 7*time.Second, rulesOf("User-agent: *\nCrawl-delay: 7\nRequest-rate: 1/5").Pause(), "the slower of both")
	require.Equal(t, 9*time.Second, rulesOf("User-agent: *\nCrawl-delay: 7\nRequest-rate: 1/9").Pause(), "the slower of both")
	require.Zero(t, (*robots.Rules)(nil).Pause())
}

func TestSitemaps(t *testing.T) {
	f := robots.Parse([]byte("Sitemap: https://a.test/1.xml\nUser-agent: x\nsitemap:https://b.test:8/2?a=b\nDisallow: /\nSite-map: /3\nSitemap:\nSitemap: "))
	require.Equal(t, []string{"https://a.test/1.xml", "https://b.test:8/2?a=b", "/3"}, f.Sitemaps())
	f.Sitemaps()[0] = "changed"
	require.Equal(t, "https://a.test/1.xml", f.Sitemaps()[0])
}

// TestLimit pads a file to the limit and beyond: the last whole line within counts.
func TestLimit(t *testing.T) {
	head := "User-agent: *\nDisallow: /first\n"
	last := "Disallow: /last\n"
	pad := func(n int) string { return strings.Repeat("#", n-1) + "\n" }
	within := head + pad(robots.MaxBytes-len(head)-len(last)) + last
	require.Len(t, within, 512_000)
	for name, tc := range map[string]struct {
		file          string
		last, further bool
	}{
		"whole":          {within, true, false},
		"and more":       {within + "Disallow: /further\n", true, false},
		"one too long":   {head + pad(robots.MaxBytes-len(head)-len(last)+1) + last, false, false},
		"last line open": {head + pad(robots.MaxBytes-len(head)-len("Disallow: /las")) + "Disallow: /last", false, false},
	} {
		r := rulesOf(tc.file)
		require.False(t, r.Check("/first").Allowed, name)
		require.Equal(t, tc.last, !r.Check("/last").Allowed, name)
		require.Equal(t, tc.last, !r.Check("/las").Allowed || !r.Check("/last").Allowed, name)
		require.Equal(t, tc.further, !r.Check("/further").Allowed, name)
	}
	require.True(t, rulesOf(strings.Repeat("User-agent: *", 50_000)).Check("/").Allowed, "one line without an end")
}

func TestLineNumbers(t *testing.T) {
	for _, eol := range []string{"\n", "\r", "\r\n"} {
		lines := []string{"# one", "User-agent: *", "", "", "Disallow: /five", "Allow: /six  # x", "Disallow: /s%65ven€"}
		r := rulesOf(strings.Join(lines, eol))
		require.Equal(t, robots.Decision{
			Line: 5, Rule: "Disallow: /five", Reason: "robots.txt line 5: Disallow: /five",
		}, r.Check("/five/x"))
		require.Equal(t, robots.Decision{
			Allowed: true, Line: 6, Rule: "Allow: /six", Reason: "robots.txt line 6: Allow: /six",
		}, r.Check("/six"))
		require.Equal(t, "robots.txt line 7: Disallow: /s%65ven€", r.Check("/seven%e2%82%ac").Reason, "as it is written")
		require.Equal(t, robots.Decision{Allowed: true, Reason: "no rule in robots.txt matches"}, r.Check("/"))
	}
}

// FuzzParse: whatever the bytes, parsing and checking stand it, give the same decision every time, and name a line
// that exists; and no line asks for more than a day's pause, or makes us quicker than the others have asked for.
func FuzzParse(f *testing.F) {
	f.Add([]byte("User-agent: *\nDisallow: /a*b$\nAllow: /\r\rCrawl-delay: 1.5\nSitemap: x"), "/a/b?c")
	f.Add([]byte("\xef\xbb\xbfuser-agent treadlight\x00\ndisallow /%4"), "/%4")
	f.Add([]byte("User-agent: *\nRequest-rate: 2/7m 0600-0845\nCrawl-delay: 3\n"), "/")
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		r := robots.Parse(body).Agent(agent)
		v := r.Check(path)
		if again := robots.Parse(bytes.Clone(body)).Agent("treadlight/9").Check(path); again != v {
			t.Errorf("decisions %v and %v on the same", v, again)
		}
		lines := bytes.Count(body, []byte("\n")) + bytes.Count(body, []byte("\r")) + 1
		if v.Line < 0 || v.Line > lines || (v.Line == 0) != (v.Rule == "") || (!v.Allowed && v.Line == 0) {
			t.Errorf("decision %+v on a file of at most %d lines", v, lines)
		}
		if p := r.Pause(); p < 0 || p > 24*time.Hour {
			t.Errorf("pause %v, want at most a day", p)
		}
		if len(body) < robots.MaxBytes/2 {
			more := robots.Parse(append(bytes.Clone(body), "\nUser-agent: treadlight\nRequest-rate: 1/1h 0600-0845\n"...)).Agent(agent)
			if got := more.Pause(); got < max(time.Hour, r.Pause()) {
				t.Errorf("with one request per hour added, the pause is %v, and was %v", got, r.Pause())
			}
		}
		pad := append(bytes.Repeat([]byte("#"), max(0, robots.MaxBytes-len(body)/2)), '\n')
		long := append(pad, body...) // half of it beyond the limit
		short := long[:min(len(long), robots.MaxBytes)]
		if a, b := robots.Parse(long).Agent(agent).Check(path), robots.Parse(short).Agent(agent).Check(path); len(long) > len(short) && a != b {
			t.Errorf("what is beyond the limit changed %v to %v", b, a)
		}
	})
}
