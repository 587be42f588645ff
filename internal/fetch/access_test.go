package fetch_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/fetch/resolve"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func echo(w http.ResponseWriter, r *http.Request) {
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Plain"} {
		_, _ = io.WriteString(w, strings.Join(r.Header[name], "+")+"|")
	}
}

func everywhere(names ...string) map[string]http.Handler {
	hosts := make(map[string]http.Handler)
	for _, name := range names {
		hosts[name] = http.HandlerFunc(echo)
	}
	return hosts
}

// TestCredentialsStayWithTheirHosts: what looks like a credential goes to no host that was
// not named, and what is no credential goes to all.
func TestCredentialsStayWithTheirHosts(t *testing.T) {
	var kept []string
	cfg := fetch.Config{
		Header:  http.Header{"Authorization": {"global"}, "cookie": {"sid=global"}, "X-Api-Key": {"k"}, "X-Plain": {"p"}},
		Trusted: func(authority string, tls bool) bool { return authority == "seed.test" && !tls },
		Access: must(access.New(access.Config{
			Logins: []access.Login{{Match: "login.test", Authorization: "of a login"}},
			Rules: []access.Rule{
				{Match: "seed.test", Header: http.Header{"x-api-key": {"own"}}},
				{Match: "*.rule.test", Header: http.Header{"X-Plain": {"rule"}, "X-Token": {"t"}}, Authorization: "of a rule"},
			},
		})),
		Withheld: func(authority string) { kept = append(kept, authority) },
	}
	hosts := everywhere("seed.test", "other.test", "seed.test.evil.test", "login.test", "a.rule.test", "seed.test:8080")
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		for _, tc := range []struct {
			url    string
			header http.Header
			want   string
		}{
			{"http://seed.test/", nil, "global|sid=global|own|p|"},
			{"http://seed.test:80/", nil, "global|sid=global|own|p|"},
			{"http://seed.test/", http.Header{"Authorization": {"mine"}}, "mine|sid=global|own|p|"},
			{"http://seed.test:8080/", nil, "|||p|"},
			{"http://other.test/", nil, "|||p|"},
			{"http://seed.test.evil.test/", nil, "|||p|"},
			{"http://u:p@other.test/", nil, "Basic dTpw|||p|"},
			{"http://login.test/", nil, "|||p|"},
			{"http://a.rule.test/", nil, "|||rule|"},
		} {
			res, err := c.Fetch(t.Context(), fetch.Request{URL: tc.url, Header: tc.header})
			require.NoError(t, err, tc.url)
			require.Equal(t, tc.want, string(res.Body), tc.url)
		}
		require.Equal(t, []string{"seed.test:8080", "login.test", "a.rule.test"}, kept, "in the clear, and not named so")
	})
}

// TestCredentialsGoOverTLS: to the hosts they were given for, without more words.
func TestCredentialsGoOverTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer s.Close()
	c := newClient(t, fetch.Config{
		AllowPrivate: true, Insecure: true, Header: http.Header{"X-Api-Key": {"global"}},
		Trusted:  func(string, bool) bool { return false },
		Withheld: func(authority string) { t.Errorf("kept from %s", authority) },
		Access:   must(access.New(access.Config{Netrc: []access.Login{{Match: "127.0.0.1", Authorization: "of netrc"}}})),
	})
	res := fetched(t, c, s.URL)
	require.Equal(t, "of netrc||||", string(res.Body))
}

func TestCookiesComeBack(t *testing.T) {
	jar := must(cookies.New(cookies.Config{}))
	hosts := everywhere("a.test", "www.a.test", "b.test")
	hosts["a.test"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/set":
			w.Header().Add("Set-Cookie", "s=1; Path=/")
			w.Header().Add("Set-Cookie", "d=2; Domain=a.test; Path=/; Max-Age=60")
			w.Header().Add("Set-Cookie", "evil=3; Domain=test")
			w.Header().Set("Location", "http://b.test/")
			w.WriteHeader(http.StatusFound)
		default:
			echo(w, r)
		}
	})
	cfg := fetch.Config{Cookies: jar, Header: http.Header{"Cookie": {"mine=0"}}}
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		get := func(u string) string {
			res := fetched(t, c, u)
			return string(res.Body)
		}
		require.Equal(t, "|mine=0|||", get("http://a.test/"))
		get("http://a.test/set?x")
		require.Equal(t, "|mine=0; s=1; d=2|||", get("http://a.test/x"), "one line")
		require.Equal(t, "|mine=0; d=2|||", get("http://www.a.test/"))
		ofPage := fetch.Request{URL: "http://a.test/x", Cookie: "p=4; s=5"}
		res := must(c.Fetch(t.Context(), ofPage))
		require.Equal(t, "|p=4; s=5; mine=0; d=2|||", string(res.Body), "those of a page go before")
		ofPage.Anonymous = true
		res = must(c.Fetch(t.Context(), ofPage))
		require.Equal(t, "|mine=0|||", string(res.Body))
		require.Equal(t, "|mine=0|||", get("http://b.test/"))
		time.Sleep(time.Minute)
		require.Equal(t, "|mine=0; s=1|||", get("http://a.test//odd//path"), "in the absolute form, too")
	})
}

// TestClientCertificates are shown to hosts they were meant for.
func TestClientCertificates(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.Organization[0])
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	cert := s.TLS.Certificates[0] // any pair will do
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	at := must(resolve.ParseStatic("example.com:*:127.0.0.1"))
	r := resolver(t, resolve.Config{Static: []resolve.Static{at}})
	rule := func(match string) *access.Table {
		return must(access.New(access.Config{Rules: []access.Rule{{Match: match, Certificate: &cert}}}))
	}

	for name, tc := range map[string]struct {
		cfg fetch.Config
		ok  bool
	}{
		"none":              {fetch.Config{}, false},
		"for all":           {fetch.Config{Certificate: &cert}, true},
		"for trusted hosts": {fetch.Config{Certificate: &cert, Trusted: func(host string, tls bool) bool { return tls && host == "example.com:"+port }}, true},
		"for other hosts":   {fetch.Config{Certificate: &cert, Trusted: func(string, bool) bool { return false }}, false},
		"of a rule":         {fetch.Config{Access: rule("example.com")}, true},
		"of another rule":   {fetch.Config{Access: rule("a.test")}, false},
		"rule before all":   {fetch.Config{Certificate: &tls.Certificate{}, Access: rule("*.com")}, true},
		"over HTTP/2":       {fetch.Config{HTTP2: true, Certificate: &cert}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.RootCAs, tc.cfg.Resolver = roots, r
			c := newClient(t, tc.cfg)
			res, err := c.Fetch(t.Context(), fetch.Request{URL: "https://example.com:" + port + "/"})
			if tc.ok {
				require.NoError(t, err)
				require.Equal(t, "Acme Co", string(res.Body))
				return
			}
			require.ErrorContains(t, err, "certificate required")
			require.Equal(t, outcome.TLS, asError(t, err).Class(), "%v", err)
		})
	}
}
