package access_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/access"
)

func newTable(t *testing.T, cfg access.Config) *access.Table {
	t.Helper()
	table, err := access.New(cfg)
	require.NoError(t, err)
	return table
}

// TestTheFirstThatMatchesCounts: the order is that of the file, not of how exact a rule is.
func TestTheFirstThatMatchesCounts(t *testing.T) {
	matches := []string{
		"a.test:8080", "a.test", "*.a.test", "www.a.test", "*.b.test:81", "x.b.test", "[2001:db8::1]", "[2001:db8::1]:82",
		"192.0.2.1", "*.test",
	}
	rules := make([]access.Rule, len(matches))
	for i, m := range matches {
		rules[i] = access.Rule{Match: m}
	}
	table := newTable(t, access.Config{Rules: rules})
	for authority, want := range map[string]string{
		"a.test": "a.test", "a.test:8080": "a.test:8080", "a.test:9": "a.test",
		"www.a.test": "*.a.test", "x.y.a.test:9": "*.a.test",
		"x.b.test": "x.b.test", "x.b.test:81": "*.b.test:81", "y.b.test": "*.test", "b.test": "*.test",
		"[2001:db8::1]": "[2001:db8::1]", "[2001:db8::1]:82": "[2001:db8::1]", "[2001:db8::2]": "",
		"192.0.2.1:80": "192.0.2.1", "test": "", "aa.tests": "", "": "", ".": "", ":80": "",
	} {
		got := ""
		if r := table.Rule(authority); r != nil {
			got = r.Match
		}
		require.Equal(t, want, got, authority)
	}
}

func TestNothingIsSpecial(t *testing.T) {
	var none *access.Table
	for _, table := range []*access.Table{none, new(access.Table), newTable(t, access.Config{})} {
		require.Nil(t, table.Rule("a.test"))
		require.Empty(t, table.Authorization("a.test"))
	}
}

func TestUnusedLogins(t *testing.T) {
	var none *access.Table
	require.Nil(t, none.Unused())
	table := newTable(t, access.Config{Logins: []access.Login{{"a.test", "one"}, {"*.b.test", "two"}}})
	require.Equal(t, []string{"a.test", "*.b.test"}, table.Unused())
	table.Authorization("www.b.test")
	table.Authorization("c.test")
	require.Equal(t, []string{"a.test"}, table.Unused())
}

func TestAuthorizationGoesByOrder(t *testing.T) {
	table := newTable(t, access.Config{
		Logins: []access.Login{{"a.test", "flag"}, {"none.test", ""}},
		Rules: []access.Rule{
			{Match: "a.test", Authorization: "rule"},
			{Match: "b.test", Authorization: "rule"},
			{Match: "c.test"},
			{Match: "none.test", Authorization: "rule"},
			{Match: "*.test", Authorization: "all"},
		},
		Netrc: []access.Login{{"a.test", "netrc"}, {"b.test", "netrc"}, {"c.test", "netrc"}, {"d.example", "netrc"}},
	})
	for host, want := range map[string]string{
		"a.test": "flag", "b.test": "rule", "c.test": "netrc", "d.example": "netrc", "x.test": "all", "none.test": "", "e.example": "",
	} {
		require.Equal(t, want, table.Authorization(host), host)
	}
}

func TestMatchesAreChecked(t *testing.T) {
	for _, bad := range []string{"", "*", "*.", "a b", "a/b", "u@a", "*.*.a", ":80"} {
		for want, cfg := range map[string]access.Config{
			"Config.Rules[0].Match":  {Rules: []access.Rule{{Match: bad}}},
			"Config.Logins[0].Match": {Logins: []access.Login{{Match: bad}}},
			"Config.Netrc[0].Match":  {Netrc: []access.Login{{Match: bad}}},
		} {
			_, err := access.New(cfg)
			require.ErrorContains(t, err, want, bad)
		}
	}
}

func TestFindingAllocatesNothing(t *testing.T) {
	table := newTable(t, access.Config{
		Logins: []access.Login{{"a.test", "x"}},
		Rules:  []access.Rule{{Match: "*.b.test", Header: http.Header{}, Proxy: &url.URL{}}},
		Netrc:  []access.Login{{"c.test", "x"}},
	})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		table.Rule("www.x.b.test:8080")
		table.Authorization("www.x.d.test:8080")
	}))
}

func TestParseAuth(t *testing.T) {
	for in, want := range map[string]string{
		"Aladdin:open sesame": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", // RFC 7617, 2
		"test:123£":           "Basic dGVzdDoxMjPCow==",             // RFC 7617, 2.1
		"user:":               "Basic dXNlcjo=",
		"user:a:b":            access.Basic("user:a:b"),
		"bearer mF_9.B5f-4":   "Bearer mF_9.B5f-4", // RFC 6750, 2.1
		"Bearer  abc ":        "Bearer abc",
		"bearer:pw":           access.Basic("bearer:pw"),
	} {
		got, err := access.ParseAuth(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for in, want := range map[string]string{
		"":                 "is neither",
		"hunter2":          "is neither",
		":hunter2":         "is neither",
		"bearer ":          "has no token",
		"bearer hunter2 x": "has no token",
		"u:hunter2\nX: y":  "control characters",
	} {
		_, err := access.ParseAuth(in)
		require.ErrorContains(t, err, want, in)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestCutLogin(t *testing.T) {
	match, auth, err := access.CutLogin("*.a.test:8080=u:p=q")
	require.NoError(t, err)
	require.Equal(t, []string{"*.a.test:8080", "u:p=q"}, []string{match, auth})
	for _, in := range []string{"hunter2", "=u:hunter2", "a.test="} {
		_, _, err := access.CutLogin(in)
		require.ErrorContains(t, err, "has no host", in)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestParseProxy(t *testing.T) {
	for in, want := range map[string]string{
		"proxy.test:3128":             "http://proxy.test:3128",
		"proxy.test":                  "http://proxy.test:80",
		"http://u:p@proxy.test:3128/": "http://u:p@proxy.test:3128",
		"https://proxy.test":          "https://proxy.test:443",
		"socks5://127.0.0.1":          "socks5://127.0.0.1:1080",
		"socks5h://[::1]":             "socks5h://[::1]:1080",
		"http://proxy.test:":          "http://proxy.test:80",
	} {
		u, err := access.ParseProxy(in)
		require.NoError(t, err, in)
		require.Equal(t, want, u.String(), in)
	}
	for _, in := range []string{
		"", "ftp://proxy.test", "http://", "http://u:hunter2@", "http://proxy.test/path", "http://proxy.test?x", "http://u:hunter2@pro xy",
		"http://u:hunter2@proxy.test:port", "socks4://proxy.test", "http://[x]:80", "http://u:hunter2@proxy.test#f",
	} {
		_, err := access.ParseProxy(in)
		require.ErrorContains(t, err, "is no proxy; write", in)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestRedactProxy(t *testing.T) {
	for in, want := range map[string]string{
		"http://u:p@proxy.test:3128": "http://X@proxy.test:3128", "u:p@proxy.test": "X@proxy.test",
		"socks5://proxy.test": "socks5://proxy.test", "proxy.test:80": "proxy.test:80", "http://u:p@q@proxy.test": "http://X@proxy.test",
		"env": "env", "": "",
	} {
		require.Equal(t, want, access.RedactProxy(in, "X"), in)
	}
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "alpha", "B_2": "${A}", "EMPTY": ""}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for in, want := range map[string]string{
		"": "", "plain $A {A} $": "plain $A {A} $", "u:${A}": "u:alpha", "${A}${A}x": "alphaalphax",
		"${B_2}": "${A}", // a value is not looked into
		"$${A}":  "${A}", "$$${A}": "$${A}", "a$${b": "a${b", "$${": "${",
	} {
		got, err := access.Expand(in, lookup)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
		require.Equal(t, strings.Contains(strings.ReplaceAll(in, "$${", ""), "${"), access.Expands(in), in)
	}
	for in, want := range map[string]string{
		"${C}": "takes the variable C, which is not set", "${EMPTY}": "EMPTY, which is not set",
		"${": "without a name", "${}": "without a name", "u:hunter2${A": "without a name",
	} {
		_, err := access.Expand(in, lookup)
		require.ErrorContains(t, err, want, in)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestParseNetrc(t *testing.T) {
	logins, err := access.ParseNetrc(strings.NewReader(`# what ftp reads
machine A.test login u1 password p1
machine b.test
	login "u 2"
	password "p\"2\\" # not for everybody
macdef init
machine evil.test login x password y

machine c.test password only account none
machine d.test login l3
default login anonymous password me@a.test
machine e.test login bearer password "x y"
`))
	require.NoError(t, err)
	require.Equal(t, []access.Login{
		{"a.test", access.Basic("u1:p1")},
		{"b.test", access.Basic(`u 2:p"2\`)},
		{"d.test", access.Basic("l3:")},
		{"e.test", access.Basic("bearer:x y")},
	}, logins)

	for in, want := range map[string]string{
		"password hunter2":                                 "line 1: password comes before any machine",
		"machine a.test login u password":                  "line 1: password has no value",
		"\n\nhunter2 x":                                    "line 3: a word is none of machine",
		"machine a.test\nlogin \"hunter2\nx\"":             `line 2: a " has no end`,
		"machine a/b login u password hunter2 machine b":   `machine "a/b" is no host`,
		"machine a login u password \"hunter2\x01\"":       "machine a: its login with its password has control characters",
		strings.Repeat("# hunter2\n", 200_000):             "it is larger than 1048576 bytes",
		"machine a login u password p\nmacdef x\nhunter2 ": "",
		"": "",
	} {
		_, err := access.ParseNetrc(strings.NewReader(in))
		if want == "" {
			require.NoError(t, err, in)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
	broken := errors.New("a broken disk")
	_, err = access.ParseNetrc(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}

// FuzzParseNetrc: whatever is in the file, what comes of it can be sent and is for hosts.
func FuzzParseNetrc(f *testing.F) {
	f.Add("machine a login b password c\nmacdef x\n\ndefault login d")
	f.Add("machine \"a\\\"b\" # \n")
	f.Fuzz(func(t *testing.T, text string) {
		logins, err := access.ParseNetrc(strings.NewReader(text))
		if err != nil {
			return
		}
		_, err = access.New(access.Config{Netrc: logins})
		require.NoError(t, err)
		for _, l := range logins {
			pair, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(l.Authorization, "Basic "))
			require.NoError(t, err)
			require.False(t, strings.ContainsAny(string(pair), "\r\n\x00"))
		}
	})
}
