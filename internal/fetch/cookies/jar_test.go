package cookies_test

import (
	"errors"
	"fmt"
	"net/http/cookiejar"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/cookies"
)

func newJar(t *testing.T, cfg cookies.Config) *cookies.Jar {
	t.Helper()
	j, err := cookies.New(cfg)
	require.NoError(t, err)
	return j
}

func at(url string) cookies.Origin {
	rest, tls := strings.CutPrefix(url, "https://")
	rest = strings.TrimPrefix(rest, "http://")
	host, path, _ := strings.Cut(rest, "/")
	return cookies.Origin{TLS: tls, Host: host, Path: "/" + path}
}

// TestWhereCookiesGo sets one cookie and asks for it elsewhere. The rows are read off RFC
// 6265, sections 5.1 to 5.4, and RFC 6265bis where that says more.
func TestWhereCookiesGo(t *testing.T) {
	for _, tc := range []struct{ from, line, to, want string }{
		{"http://a.test/", "k=v", "http://a.test/x/y", "k=v"},
		{"http://a.test/", "k=v", "https://a.test/", "k=v"},
		{"http://a.test/", "k=v", "http://b.test/", ""},
		{"http://a.test/", "k=v", "http://www.a.test/", ""}, // host only
		{"http://www.a.test/", "k=v; Domain=a.test", "http://a.test/", "k=v"},
		{"http://www.a.test/", "k=v; Domain=.A.test", "http://x.y.a.test/", "k=v"},
		{"http://www.a.test/", "k=v; Domain=a.test", "http://ba.test/", ""},
		{"http://a.test/", "k=v; Domain=www.a.test", "http://www.a.test/", ""}, // from above
		{"http://a.test/", "k=v; Domain=b.test", "http://b.test/", ""},
		{"http://a.test/", "k=v; Domain=test", "http://b.test/", ""},
		{"http://a.co.uk/", "k=v; Domain=co.uk", "http://b.co.uk/", ""},
		{"http://a.co.uk/", "k=v; Domain=co.uk", "http://a.co.uk/", ""},
		{"http://me.github.io/", "k=v; Domain=github.io", "http://you.github.io/", ""},
		{"http://github.io/", "k=v; Domain=github.io", "http://github.io/", "k=v"}, // itself only
		{"http://github.io/", "k=v; Domain=github.io", "http://you.github.io/", ""},
		{"http://localhost/", "k=v", "http://localhost/", "k=v"},
		{"http://192.0.2.1/", "k=v", "http://192.0.2.1/", "k=v"},
		{"http://192.0.2.1/", "k=v; Domain=192.0.2.1", "http://192.0.2.1/", "k=v"},
		{"http://192.0.2.1/", "k=v; Domain=0.2.1", "http://9.0.2.1/", ""},
		{"http://2001:db8::1/", "k=v", "http://2001:db8::1/", "k=v"},
		// paths
		{"http://a.test/dir/page", "k=v", "http://a.test/dir/other", "k=v"},
		{"http://a.test/dir/page", "k=v", "http://a.test/dir", "k=v"},
		{"http://a.test/dir/page", "k=v", "http://a.test/dirt", ""},
		{"http://a.test/dir/page", "k=v", "http://a.test/", ""},
		{"http://a.test/dir/page", "k=v; Path=/", "http://a.test/", "k=v"},
		{"http://a.test/", "k=v; Path=/d/", "http://a.test/d", ""},
		{"http://a.test/", "k=v; Path=/d/", "http://a.test/d/e", "k=v"},
		{"http://a.test/x", "k=v; Path=d", "http://a.test/", "k=v"}, // not a path: the default
		// secure
		{"https://a.test/", "k=v; Secure", "http://a.test/", ""},
		{"https://a.test/", "k=v; Secure", "https://a.test/", "k=v"},
		{"http://a.test/", "k=v; Secure", "https://a.test/", ""},
		{"https://a.test/", "__Secure-k=v; Secure", "https://a.test/", "__Secure-k=v"},
		{"https://a.test/", "__Secure-k=v", "https://a.test/", ""},
		{"https://a.test/", "__Host-k=v; Secure; Path=/", "https://a.test/", "__Host-k=v"},
		{"https://a.test/", "__host-k=v; Secure; Path=/x", "https://a.test/x", ""},
		{"https://w.a.test/", "__Host-k=v; Secure; Path=/; Domain=a.test", "https://w.a.test/", ""},
		// values
		{"http://a.test/", `k="a b"`, "http://a.test/", `k="a b"`},
		{"http://a.test/", `k={"a":"1","b":2}`, "http://a.test/", `k={"a":"1","b":2}`},
		{"http://a.test/", "k=", "http://a.test/", "k="},
		{"http://a.test/", "k=a=b", "http://a.test/", "k=a=b"},
		{"http://a.test/", " k = v ; Path=/", "http://a.test/", "k=v"},
		{"http://a.test/", "k=v; HttpOnly; SameSite=Strict; Unknown=1", "http://a.test/", "k=v"},
		{"http://a.test/", "no pair", "http://a.test/", ""},
		{"http://a.test/", "=v", "http://a.test/", ""},
		{"http://a.test/", "k=a\x01b", "http://a.test/", ""},
		{"http://a.test/", "k\tx=v", "http://a.test/", ""},
		{"http://a.test/", "k=" + strings.Repeat("v", 4095), "http://a.test/", "k=" + strings.Repeat("v", 4095)},
		{"http://a.test/", "k=" + strings.Repeat("v", 4096), "http://a.test/", ""},
	} {
		j := newJar(t, cookies.Config{})
		j.Set(at(tc.from), []string{tc.line})
		require.Equal(t, tc.want, j.Header(at(tc.to)), "%s set %q, sent to %s", tc.from, tc.line, tc.to)
	}
}

func TestExpiry(t *testing.T) {
	const day = 24 * time.Hour
	for line, lives := range map[string]time.Duration{ // in a bubble the year 2000 begins
		"k=v; Max-Age=60": time.Minute,
		"k=v; Max-Age=60; Expires=Fri, 31 Dec 1999 23:00:00 GMT": time.Minute, // Max-Age goes first
		"k=v; Expires=Sat, 01 Jan 2000 01:00:00 GMT":             time.Hour,
		"k=v; Expires=Sat, 01-Jan-2000 01:00:00 GMT":             time.Hour,
		"k=v; Max-Age=999999999999":                              400 * day,
		"k=v; Expires=Tue, 01 Jan 2030 00:00:00 GMT":             400 * day,
		"k=v; Max-Age=0":  0,
		"k=v; Max-Age=-1": 0,
		"k=v; Expires=Thu, 01 Jan 1970 00:00:00 GMT":         0,
		"k=v; Expires=Fri, 31 Dec 1999 23:59:59 GMT; Path=/": 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			j := newJar(t, cookies.Config{})
			home := at("http://a.test/")
			j.Set(home, []string{line})
			if lives > 0 {
				time.Sleep(lives - 1)
				require.Equal(t, "k=v", j.Header(home), line)
				time.Sleep(time.Nanosecond)
			}
			require.Empty(t, j.Header(home), line)
			require.Zero(t, j.Len(), line)
		})
	}
}

func TestReplacing(t *testing.T) {
	j := newJar(t, cookies.Config{})
	home := at("https://a.test/")
	j.Set(home, []string{"a=1", "b=2", "a=3", "c=4; Path=/x", "d=5; Secure"})
	require.Equal(t, "a=3; b=2; d=5", j.Header(home), "in its old place")
	require.Equal(t, "c=4; a=3; b=2; d=5", j.Header(at("https://a.test/x/")), "longer paths first")
	j.Set(at("http://a.test/"), []string{"d=evil", "a=6"})
	require.Equal(t, "a=6; b=2; d=5", j.Header(home), "what is secure is not replaced over plain HTTP")
	j.Set(at("http://a.test/x/"), []string{"d=evil; Path=/x"})
	require.Equal(t, "c=4; a=6; b=2; d=5", j.Header(at("https://a.test/x/")))
	j.Set(home, []string{"a=; Max-Age=0", "b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"})
	require.Equal(t, "d=5", j.Header(home))
}

// TestBounds lets a hostile site make up names.
func TestBounds(t *testing.T) {
	j := newJar(t, cookies.Config{MaxPerSite: 10, MaxSites: 3})
	for i := range 1000 {
		j.Set(at(fmt.Sprintf("http://h%d.evil.test/", i)), []string{fmt.Sprintf("k%d=v; Domain=evil.test", i)})
	}
	require.Equal(t, 10, j.Len())
	require.Equal(t, "k990=v; k991=v; k992=v; k993=v; k994=v; k995=v; k996=v; k997=v; k998=v; k999=v",
		j.Header(at("http://evil.test/")), "the oldest are gone")
	lines := make([]string, 500)
	for i := range lines {
		lines[i] = fmt.Sprintf("n%d=v", i)
	}
	j.Set(at("http://one.test/"), lines)
	require.Equal(t, 20, j.Len())
	j.Set(at("http://two.test/"), []string{"a=1"})
	j.Header(at("http://evil.test/"))
	j.Set(at("http://three.test/"), []string{"a=1"})
	require.Empty(t, j.Header(at("http://one.test/")), "the site asked longest ago")
	require.NotEmpty(t, j.Header(at("http://evil.test/")))
}

func TestBytesAreBounded(t *testing.T) {
	j := newJar(t, cookies.Config{})
	for i := range 50 {
		j.Set(at("http://a.test/"), []string{fmt.Sprintf("k%d=%s", i, strings.Repeat("v", 4000))})
	}
	require.Equal(t, 4, j.Len(), "16 KiB a site")
	sent := j.Header(at("http://a.test/"))
	require.LessOrEqual(t, len(sent), 8<<10)
	require.Equal(t, 2, strings.Count(sent, "k"))
}

func TestConcurrentUse(t *testing.T) {
	j := newJar(t, cookies.Config{MaxPerSite: 5, MaxSites: 4})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 300 {
				o := at(fmt.Sprintf("http://s%d.test/", (g+i)%6))
				j.Set(o, []string{fmt.Sprintf("k%d=%d", i%9, g)})
				j.Header(o)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, j.Len(), 20)
}

func TestConfigIsChecked(t *testing.T) {
	_, err := cookies.New(cookies.Config{MaxPerSite: -1})
	require.ErrorContains(t, err, "Config.MaxPerSite is -1")
	_, err = cookies.New(cookies.Config{MaxSites: -2})
	require.ErrorContains(t, err, "MaxSites -2")
}

// FuzzSet: whatever a server sets, what is sent back fits into one header line and goes to nobody else.
func FuzzSet(f *testing.F) {
	for _, s := range []string{"k=v", "k=v; Domain=.test; Path=/", "__Host-k=v; Secure", `k="v"; Max-Age=9`, "=;=;"} {
		f.Add(s, "/a/b")
	}
	f.Fuzz(func(t *testing.T, line, path string) {
		j := newJar(t, cookies.Config{})
		from := cookies.Origin{TLS: true, Host: "www.a.test", Path: path}
		j.Set(from, []string{line, line})
		for _, host := range []string{"www.a.test", "a.test"} {
			sent := j.Header(cookies.Origin{TLS: true, Host: host, Path: path})
			require.False(t, strings.ContainsAny(sent, "\r\n\x00"), sent)
			require.LessOrEqual(t, len(sent), 8<<10)
		}
		for _, host := range []string{"b.test", "test", "xa.test"} {
			require.Empty(t, j.Header(cookies.Origin{TLS: true, Host: host, Path: path}), host)
		}
		require.LessOrEqual(t, j.Len(), 1)
	})
}

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

// A jar of net/http keeps what it can read, by its own rules, and quotes stay.
func TestStandard(t *testing.T) {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	s := cookies.Standard{Jar: jar}
	s.Set(cookies.Origin{Host: "a.test", Path: "/"}, []string{"x=1", `q="a b"`, "=", "\x00"})
	s.Set(cookies.Origin{TLS: true, Host: "::1", Path: "/"}, []string{"y=2; Secure"})
	s.Set(cookies.Origin{Host: "b.test", Path: "/"}, nil)
	for o, want := range map[cookies.Origin]string{
		{Host: "a.test", Path: "/"}: `x=1; q="a b"`, {TLS: true, Host: "::1", Path: "/"}: "y=2",
		{Host: "::1", Path: "/"}: "", {Host: "b.test", Path: "/"}: "",
	} {
		require.Equal(t, want, s.Header(o), "%v", o)
	}
}
