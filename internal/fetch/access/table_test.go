package access_test

import (
	"net/http"
	"net/url"
	"testing"

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
