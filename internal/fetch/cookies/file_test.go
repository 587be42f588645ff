package cookies_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/cookies"
)

// export is as browsers' extensions and curl write it, tabs shown as bars.
const export = "\ufeff# Netscape HTTP Cookie File\r\n" + `
# https://curl.se/docs/http-cookies.html

.example.com|TRUE|/|TRUE|0|wide|1
example.com|FALSE|/|FALSE|0|only|2
#HttpOnly_www.example.com|FALSE|/app|FALSE|0|hidden|3
www.example.com|FALSE|/|FALSE|946684799|old|4
www.example.com|FALSE|/|FALSE|99999999999|later|{"a":"b"}
www.example.com|FALSE|/|FALSE|1000000000.5|soon|5
192.0.2.1|FALSE|/|FALSE|0|address|6
localhost|FALSE|/|FALSE|0|empty
`

func tabs(s string) string { return strings.ReplaceAll(s, "|", "\t") }

func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which it is the year 2000
		j := newJar(t, cookies.Config{})
		require.NoError(t, j.Load(strings.NewReader(tabs(export))))
		require.Equal(t, 7, j.Len(), "one has expired")
		for url, want := range map[string]string{
			"https://example.com/":         "wide=1; only=2",
			"http://example.com/":          "only=2",
			"https://www.example.com/":     `wide=1; later={"a":"b"}; soon=5`,
			"https://www.example.com/app":  `hidden=3; wide=1; later={"a":"b"}; soon=5`,
			"https://other.example.com/":   "wide=1",
			"http://192.0.2.1/":            "address=6",
			"http://localhost/":            "empty=",
			"https://example.com.evil.com": "",
		} {
			require.Equal(t, want, j.Header(at(url)), url)
		}
		j.Set(at("https://example.com/"), []string{"only=new"})
		require.Equal(t, "wide=1; only=new", j.Header(at("https://example.com/")), "an answer goes over the file")
		time.Sleep(400 * 24 * time.Hour)
		require.Equal(t, "wide=1", j.Header(at("https://www.example.com/")), "nothing lives longer")
	})
}

func TestLoadRejects(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                                  "line 1: it has 1 fields: a line has seven fields with tabs",
		"# x\n\na.test|TRUE|/":                "line 3: it has 3 fields",
		"a.test|YES|/|FALSE|0|k|v":            "line 1: a field is not what it should be",
		"a.test|TRUE|/|0|0|k|v":               "a field is not what",
		"a.test|TRUE|x|FALSE|0|k|v":           "a field is not what",
		"a.test|TRUE|/|FALSE|soon|k|v":        "a field is not what",
		"|TRUE|/|FALSE|0|k|v":                 `"" is no domain`,
		"http://a.test|TRUE|/|FALSE|0|k|v":    `"http://a.test" is no domain`,
		".co.uk|TRUE|/|FALSE|0|k|v":           `"co.uk" is a public suffix`,
		"a.test|TRUE|/|FALSE|0|k;x|v":         "characters that a cookie cannot have",
		"a.test|TRUE|/|FALSE|0||v":            "characters that a cookie cannot have",
		"a.test|FALSE|/|FALSE|0|__Host-k|v":   "begins with a promise",
		strings.Repeat("x", 20<<10):           "line 1 is longer than 16384 bytes: is it a cookies.txt?",
		strings.Repeat("# much\n", 300_000):   "",
		strings.Repeat("# more\n", 2_500_000): "it is larger than 16 MiB",
	} {
		j := newJar(t, cookies.Config{})
		err := j.Load(strings.NewReader(tabs(text)))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}

// TestLoadTellsAllAtOnce, but no values, and takes nothing.
func TestLoadTellsAllAtOnce(t *testing.T) {
	j := newJar(t, cookies.Config{})
	err := j.Load(strings.NewReader(tabs("a.test|TRUE|/|FALSE|0|k|v\nsecret1\nsecret2\n" + strings.Repeat("bad\n", 50))))
	require.ErrorContains(t, err, "line 2")
	require.ErrorContains(t, err, "line 3")
	require.ErrorContains(t, err, "line 6")
	require.NotContains(t, err.Error(), "line 7")
	require.NotContains(t, err.Error(), "secret")
	require.Zero(t, j.Len())
}

func TestLoadPassesReadErrorsOn(t *testing.T) {
	broken := errors.New("a broken disk")
	require.ErrorIs(t, newJar(t, cookies.Config{}).Load(iotest.ErrReader(broken)), broken)
}

func FuzzLoad(f *testing.F) {
	f.Add(tabs(export))
	f.Add("#HttpOnly_\t\t\t\t\t\t")
	f.Fuzz(func(t *testing.T, text string) {
		j := newJar(t, cookies.Config{})
		if err := j.Load(strings.NewReader(text)); err != nil {
			require.Zero(t, j.Len())
			return
		}
		require.False(t, strings.ContainsAny(j.Header(at("https://www.example.com/")), "\r\n\x00"))
	})
}
