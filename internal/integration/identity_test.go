package integration_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/realserver"
	"github.com/treadlight/crawl/record"
)

// TestCredentialsDoNotTravel: a link and a redirect to another host bring nothing of what
// was given for the seed's, and a host with a rule gets what the rule has.
func TestCredentialsDoNotTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[string]string) // one goroutine of the server at a time: hosts are asked in turn
		note := func(next string) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				seen[r.Host+r.URL.Path] = r.Header.Get("Authorization") + "|" + r.Header.Get("Cookie") + "|" + r.Header.Get("X-Team")
				if r.URL.Path == "/away" {
					http.Redirect(w, r, "http://elsewhere.test/landed", http.StatusFound)
					return
				}
				page(next)(w, r)
			}
		}
		net := fetchtest.Serve(t, map[string]http.Handler{
			"seed.test":      note(anchors("/away", "http://linked.test/", "http://rule.test/", "http://seed.test:8080/")),
			"seed.test:8080": note(""), "linked.test": note(""), "elsewhere.test": note(""), "rule.test": note(""),
		})
		var log strings.Builder
		cfg := unpaced()
		cfg.Robots.Enabled, cfg.Sitemaps.Enabled, cfg.Scope.Mode, cfg.Concurrency = false, false, "any", 1
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		cfg.Fetch.Headers = []string{"Authorization: Bearer ${TEST_ACCESS_TOKEN}", "Cookie: sid=1", "X-Team: docs"}
		cfg.Hosts = []config.Host{{Match: "rule.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Headers: []string{"X-Team: rule"}, Auth: "me:pw"}}
		t.Setenv("TEST_ACCESS_TOKEN", "hunter2")
		visitOver(t, cfg, net.DialContext, "http://seed.test/")
		require.Equal(t, map[string]string{
			"seed.test/":            "Bearer hunter2|sid=1|docs",
			"seed.test/away":        "Bearer hunter2|sid=1|docs",
			"seed.test:8080/":       "||docs",
			"linked.test/":          "||docs",
			"elsewhere.test/landed": "||docs",
			"rule.test/":            "||rule",
		}, seen)
		require.Contains(t, log.String(), "credentials are not sent in the clear")
		require.Contains(t, log.String(), "host=rule.test")
		require.NotContains(t, log.String(), "hunter2")

		clear(seen)
		cfg.Log = nil
		visitOver(t, cfg, net.DialContext, "http://seed.test/", "http://rule.test/")
		require.Equal(t, "Basic bWU6cHc=|sid=1|rule", seen["rule.test/"], "named with http://")
	})
}

// TestEverythingWrongIsToldAtOnce, and without the secrets.
func TestEverythingWrongIsToldAtOnce(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.txt")
	require.NoError(t, os.WriteFile(bad, []byte("hunter2\n"), 0o600))
	cert, key := pair(t, dir, "one", nil, nil)
	_, other := pair(t, dir, "other", nil, nil)
	cfg := assembly.DefaultConfig()
	cfg.Fetch.Headers = []string{"Authorization: ${TEST_UNSET}"}
	cfg.Access.Auth = []string{"a.test=u:${TEST_UNSET}", "b.test=${TEST_BAD}"}
	cfg.Access.CookieFile, cfg.Access.Netrc, cfg.Access.CAFile = bad, bad, filepath.Join(dir, "gone.pem")
	cfg.Access.Cert, cfg.Access.Key = cert, other
	cfg.Access.Proxy = "http://u:${TEST_UNSET}@proxy.test"
	cfg.Hosts = []config.Host{
		{Match: "a.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Auth: "${TEST_UNSET}", Cert: bad},
		{Match: "b.test", InitialRPS: 1, MinRPS: 1, MaxRPS: 1, Headers: []string{"X: ${TEST_UNSET}"}, Cert: cert, Key: key, Proxy: "http://${TEST_PROXY}"},
	}
	t.Setenv("TEST_BAD", "hunter2")
	t.Setenv("TEST_PROXY", "u:hunter2@[")
	_, err := assembly.New(cfg)
	for _, want := range []string{
		"fetch.headers[0]: takes the variable TEST_UNSET, which is not set",
		"access.auth[0]: takes the variable TEST_UNSET", "access.auth[1]: is neither",
		"access.cookie_file: " + bad + ": line 1: it has 1 fields", "access.netrc: " + bad + ": line 1: a word is none of machine",
		"access.ca_file: open " + filepath.Join(dir, "gone.pem") + ": no such file",
		"access.cert: " + cert + " and " + other + ": tls: private key does not match public key",
		"access.proxy: takes the variable", "hosts[0].auth: takes the variable", "hosts[0].cert: " + bad,
		"hosts[1].headers[0]: takes the variable", "hosts[1].proxy: is no proxy",
	} {
		require.ErrorContains(t, err, want)
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 12)
	require.NotContains(t, err.Error(), "hunter2")
}

// TestASessionIsKept: the cookie of a login page is what shows the others.
func TestASessionIsKept(t *testing.T) {
	site := map[string]http.Handler{"a.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, err := r.Cookie("sid"); {
		case r.URL.Path == "/":
			w.Header().Set("Set-Cookie", "sid=1; Path=/")
			page(anchors("/inside"))(w, r)
		case err != nil:
			w.WriteHeader(http.StatusForbidden)
		default:
			page("inside")(w, r)
		}
	})}
	for _, on := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			net := fetchtest.Serve(t, site)
			cfg := unpaced()
			cfg.Access.Cookies = on
			list, _ := visitOver(t, cfg, net.DialContext, "http://a.test/")
			require.Equal(t, map[bool]int{true: 200, false: 403}[on], byURL(t, list)["http://a.test/inside"].Status)
		})
	}
}

// TestSecretsOfAState: variables are kept by their names, so that a state has no secret of
// theirs, and files by their places.
func TestSecretsOfAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got atomic.Value
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got.Store(r.Header.Get("Authorization") + "|" + r.Header.Get("Cookie"))
			star(12).ServeHTTP(w, r)
		})})
		dir := t.TempDir()
		jar := filepath.Join(dir, "cookies.txt")
		require.NoError(t, os.WriteFile(jar, []byte("a.test\tFALSE\t/\tFALSE\t0\tsid\t7\n"), 0o600))
		t.Chdir(dir)
		t.Setenv("TEST_ACCESS_TOKEN", "hunter2")
		out := &ledger{}
		cfg := assembly.DefaultConfig()
		cfg.State.Dir, cfg.MaxPages, cfg.Access.CookieFile = "state", 2, "cookies.txt"
		cfg.Access.Auth = []string{"a.test=bearer ${TEST_ACCESS_TOKEN}"}
		cfg.Sinks = []record.Sink{out}
		runOver(t, cfg, net.DialContext, "http://a.test/")
		require.Equal(t, "Bearer hunter2|sid=7", got.Load())
		state := filepath.Join(dir, "state")
		require.NoError(t, filepath.Walk(state, func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			require.NotContains(t, string(data), "hunter2", path)
			require.Zero(t, info.Mode().Perm()&0o077, "%s is for its owner alone", path)
			return err
		}))

		t.Chdir(t.TempDir())
		got.Store("")
		resumed(t, state, net.DialContext, out, func(cfg *assembly.Config) { cfg.MaxPages = 4 })
		require.Equal(t, "Bearer hunter2|sid=7", got.Load())

		require.NoError(t, os.Unsetenv("TEST_ACCESS_TOKEN"))
		st := openState(t, state)
		cfg = st.Config()
		_, err := assembly.New(cfg)
		require.ErrorContains(t, err, "access.auth[0]: takes the variable TEST_ACCESS_TOKEN, which is not set")
		require.NoError(t, st.Close())
	})
}

// TestAProxyThatComesBack: what it cannot carry for a while is lost nowhere, and no host is blamed for it.
func TestAProxyThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		net := fetchtest.Serve(t, map[string]http.Handler{"proxy.test:3128": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s := time.Since(begin).Seconds(); s > 3 && s < 15 || s > 20 && s < 32 {
				w.WriteHeader(http.StatusProxyAuthRequired)
				return
			}
			star(100).ServeHTTP(w, r)
		})})
		cfg := assembly.DefaultConfig()
		cfg.Sitemaps.Enabled, cfg.Access.Proxy = false, "http://me:hunter2@proxy.test:3128"
		var log strings.Builder
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		list, snap := visitOver(t, cfg, net.DialContext, "http://a.test/")
		require.Len(t, list, 101)
		for i := range list {
			require.Equal(t, http.StatusOK, list[i].Status, "%s: %+v", list[i].URL, list[i].Error)
			require.Empty(t, list[i].RemoteAddr)
		}
		require.Equal(t, "done", snap.State.String())
		require.Equal(t, 101, snap.Hosts[0].Pages, "what it did not carry was not asked for")
		require.Equal(t, 2, strings.Count(log.String(), "the proxy fails: the crawl waits, and tries again"), "each time: %s", log.String())
		require.Equal(t, 2, strings.Count(log.String(), "the proxy is back"))
		require.NotContains(t, log.String(), "hunter2")
	})
}

// TestAProxyThatIsGone ends the crawl after MaxBlocked and says why, sooner at the beginning. Until then the snapshot
// has the reason.
func TestAProxyThatIsGone(t *testing.T) {
	for _, after := range []int64{0, 4} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			net := fetchtest.Serve(t, map[string]http.Handler{"proxy.test:3128": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1) > after {
					w.WriteHeader(http.StatusProxyAuthRequired)
					return
				}
				star(10).ServeHTTP(w, r)
			})})
			var log strings.Builder
			cfg := assembly.DefaultConfig()
			cfg.Access.Proxy, cfg.Log = "http://me:hunter2@proxy.test:3128", slog.New(slog.NewTextHandler(&log, nil))
			cfg.MaxBlocked = 15 * time.Second
			c, out := recorded(t, cfg, net.DialContext)
			begin, reason := time.Now(), make(chan string, 1)
			time.AfterFunc(15*time.Second, func() { reason <- c.Snapshot().Reason })
			err := c.Run(t.Context(), "http://a.test/")
			if after == 0 {
				require.ErrorIs(t, err, crawl.ErrUnreachable)
				require.Less(t, time.Since(begin), 10*time.Second)
				require.Equal(t, "proxy", class(out.list[0]))
				return
			}
			require.ErrorIs(t, err, crawl.ErrBlocked)
			require.ErrorContains(t, err, "proxy http://proxy.test:3128: it asks for credentials")
			require.Contains(t, log.String(), "the proxy fails: the crawl waits, and tries again")
			require.NotContains(t, log.String()+err.Error(), "hunter2")
			require.Less(t, time.Since(begin), 30*time.Second)
			require.Contains(t, <-reason, "the proxy fails: proxy http://proxy.test:3128: it asks for credentials")
			require.Less(t, n.Load(), int64(200), "it is not hammered meanwhile")
		})
	}
}

// pair writes a certificate and its key, signed by a parent or by itself, and returns their files.
func pair(t *testing.T, dir, name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (cert, key string) {
	t.Helper()
	_, k, der := issue(t, name, parent, signer)
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw},
	} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o644)) //nolint:gosec // nginx reads them as another user
	}
	return cert, key
}

func issue(t *testing.T, name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name},
		BasicConstraintsValid: true, IsCA: parent == nil, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		parent, signer = c, k
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &k.PublicKey, signer)
	require.NoError(t, err)
	c, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return c, k, der
}

// TestRealServerWithLocks crawls an nginx that wants a password on one server and a client's
// certificate on another, over HTTP/1.1 and HTTP/2, by names that only --resolve knows.
func TestRealServerWithLocks(t *testing.T) {
	// nginx changes its user, so that the files are not in the test's own directory.
	dir, err := os.MkdirTemp("", "locks")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // nginx reads them as another user
	ca, caKey, caDER := issue(t, "authority", nil, nil)
	caFile := filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o644)) //nolint:gosec // see above
	cert, key := pair(t, dir, "locked.test", ca, caKey)
	client, clientKey := pair(t, dir, "client", ca, caKey)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "users"), []byte("me:{PLAIN}hunter2\n"), 0o644))              //nolint:gosec // see above
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte(anchors("/a.html", "/b.html")), 0o644)) //nolint:gosec // see above
	for _, f := range []string{"a.html", "b.html"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte("page "+f), 0o644)) //nolint:gosec // see above
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	require.NoError(t, l.Close())
	s := realserver.Nginx(t, dir, `server {
		listen 127.0.0.1:`+port+` ssl http2; server_name locked.test;
		ssl_certificate `+cert+`; ssl_certificate_key `+key+`; ssl_client_certificate `+caFile+`; ssl_verify_client on;
		location / { root `+dir+`; index index.html; add_header X-Proto $server_protocol; add_header X-Client $ssl_client_s_dn; }
	}`, `auth_basic "docs"; auth_basic_user_file `+filepath.Join(dir, "users")+`; index index.html;`)

	plain := strings.Replace(s.URL, "127.0.0.1", "docs.test", 1)
	_, plainPort, _ := strings.Cut(strings.TrimPrefix(plain, "http://"), ":")
	locked := "https://locked.test:" + port
	cfg := unpaced()
	cfg.Robots.Enabled, cfg.Sitemaps.Enabled = false, false
	cfg.Access.CAFile = caFile
	cfg.Access.Resolve = []string{"docs.test:" + plainPort + ":127.0.0.1", "locked.test:" + port + ":127.0.0.1"}
	status := func(list []record.Record) (counts map[int]int, protos map[string]int) {
		counts, protos = make(map[int]int), make(map[string]int)
		for i := range list {
			counts[list[i].Status]++
			protos[list[i].Proto]++
		}
		return counts, protos
	}

	list, _ := visit(t, cfg, plain+"/", locked+"/")
	counts, _ := status(list)
	require.Equal(t, map[int]int{401: 1, 400: 1}, counts, "without a key")

	cfg.Access.Auth = []string{"docs.test:" + plainPort + "=me:hunter2"}
	cfg.Access.Cert, cfg.Access.Key = client, clientKey
	for _, http2 := range []bool{false, true} {
		cfg.Fetch.HTTP2 = http2
		list, _ = visit(t, cfg, plain+"/", locked+"/")
		counts, protos := status(list)
		require.Equal(t, map[int]int{200: 6}, counts)
		want := map[string]int{"HTTP/1.1": 6}
		if http2 {
			want = map[string]int{"HTTP/1.1": 3, "HTTP/2.0": 3}
		}
		require.Equal(t, want, protos)
	}

	netrc := filepath.Join(dir, "netrc")
	require.NoError(t, os.WriteFile(netrc, []byte("machine docs.test login me password hunter2\n"), 0o600))
	cfg.Access.Auth, cfg.Access.Netrc = nil, netrc
	list, _ = visit(t, cfg, plain+"/")
	counts, _ = status(list)
	require.Equal(t, map[int]int{200: 3}, counts)
}
