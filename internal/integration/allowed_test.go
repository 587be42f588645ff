package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/watch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/record"
	"github.com/treadlight/crawl/transport"
)

// special has an address of every range that is not public, and of those that stand for one.
var special = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.0.24.9", "127.255.255.254", "168.63.129.16", "169.254.169.254",
	"172.16.0.1", "172.31.255.254", "192.0.0.8", "192.0.0.170", "192.0.0.192", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.1",
	"192.175.48.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::ffff:127.0.24.9", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "100:0:0:1::1",
	"2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:30::1", "2001:db8::1", "2002:7f00:1::1", "2620:4f:8000::1", "3fff::1", "5f00::1",
	"fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
}

// answers is a resolver that changes its mind.
type answers struct {
	mu sync.Mutex
	of map[string][]string // an answer for each lookup, the last for all that follow: addresses with blanks between them
}

func (a *answers) set(host string, each ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = make(map[string][]string)
	}
	a.of[host] = each
}

func (a *answers) lookup(_ context.Context, _, host string) (addrs []netip.Addr, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	each := a.of[host]
	if len(each) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(each) > 1 {
		a.of[host] = each[1:]
	}
	for item := range strings.FieldsSeq(each[0]) {
		addrs = append(addrs, netip.MustParseAddr(item))
	}
	return addrs, nil
}

// newResolving is a crawl with names looked up by lookup, each time that one is connected to.
func newResolving(cfg assembly.Config, lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) (*assembly.Crawler, error) {
	cfg.Lookup = lookup
	return assembly.New(cfg)
}

// goOn crawls what a state has left, over names that lookup knows, and returns the records.
func goOn(t *testing.T, a *answers, st *assembly.State, change func(*assembly.Config), seeds ...string) []record.Record {
	t.Helper()
	out, cfg := &records{}, st.Config()
	cfg.MaxPages, cfg.Sinks = 0, []record.Sink{out}
	if change != nil {
		change(&cfg)
	}
	c, err := newResolving(cfg, a.lookup)
	require.NoError(t, err)
	require.NoError(t, c.Run(t.Context(), seeds...))
	return out.list
}

// probed is a crawl without retries over such a resolver.
func probed(t *testing.T, a *answers, change func(*assembly.Config)) (*assembly.Crawler, *records) {
	t.Helper()
	cfg, out := unpaced(), &records{}
	cfg.RateLimit.RetryMaxAttempts, cfg.Sinks, cfg.Scope.Mode = 0, []record.Sink{out}, "any"
	cfg.Robots.Enabled = false
	if change != nil {
		change(&cfg)
	}
	c, err := newResolving(cfg, a.lookup)
	require.NoError(t, err)
	return c, out
}

// Whatever a page does to lead a crawl to an address that is not public, by a link, a redirect,
// a sitemap or a robots.txt that has moved, to the address or to a name, nothing is connected to.
func TestNothingLeadsToSpecialAddresses(t *testing.T) {
	names := new(answers)
	var links, hosts []string
	for i, a := range special {
		name := fmt.Sprintf("n%d.test", i)
		names.set(name, a)
		hosts = append(hosts, net.JoinHostPort(a, "7"), name+":7")
	}
	for i, host := range hosts {
		links = append(links, "http://"+host+"/link", fmt.Sprintf("/redirect/%d", i))
	}
	target := ""
	inner := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, "internal") })
	inner.Listen(t, "127.0.24.9:0")
	outer := fetchtest.NewRaw(t, func(c net.Conn, path string) bool {
		var i int
		switch _, err := fmt.Sscanf(path, "/redirect/%d", &i); {
		case err == nil:
			return say(c, "302 Found", "Location: http://"+hosts[i]+"/redirect\r\n", "")
		case path == "/robots.txt" && target != "":
			return say(c, "302 Found", "Location: "+target+"\r\n", "")
		case path == "/robots.txt":
			return say(c, "200 OK", "", "Sitemap: /map.xml\nSitemap: http://10.0.0.1:7/other.xml\n")
		case path == "/map.xml":
			var b strings.Builder
			for _, host := range hosts {
				fmt.Fprintf(&b, "<url><loc>http://%s/mapped</loc></url>", host)
			}
			return say(c, "200 OK", "Content-Type: application/xml\r\n", "<urlset>"+b.String()+"</urlset>")
		}
		return sayPage(c, anchors(links...))
	})
	origin := outer.Listen(t, "127.0.24.1:0")
	for _, robots := range []bool{false, true} {
		c, out := probed(t, names, func(cfg *assembly.Config) { cfg.Robots.Enabled = robots })
		require.NoError(t, c.Run(t.Context(), origin+"/", origin+"/redirect/0")) // where a seed leads to is no seed
		n := 0
		for url, rec := range byURL(t, out.list) {
			if strings.HasPrefix(url, origin) {
				require.Empty(t, class(rec), url)
				continue
			}
			n++
			require.Equal(t, "address_denied", class(rec), "%s: %+v", url, rec.Error)
			require.Regexp(t, `--allow-private|a seed or --resolve`, rec.Error.Message)
			require.Empty(t, rec.RemoteAddr, url)
		}
		// Addresses that are written in two ways are one.
		require.GreaterOrEqual(t, n, 2*len(hosts)-8)
	}
	for _, host := range hosts {
		target = "http://" + host + "/robots.txt"
		c, out := probed(t, names, func(cfg *assembly.Config) { cfg.Robots.Enabled = true })
		require.Error(t, c.Run(t.Context(), origin+"/"), target)
		require.Equal(t, "address_denied", class(byURL(t, out.list)[origin+"/"]), target)
	}
	require.Empty(t, inner.Heads())
}

// What a name of a seed leads to is decided when the crawl begins, for the ports of its seeds and
// for nobody else's name.
func TestNamesOfSeedsOpenWhatTheyWere(t *testing.T) {
	const at, elsewhere, public = "127.0.24.1", "127.0.24.2", "192.0.66.2"
	names := new(answers)
	var links []string
	host := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, anchors(links...)) })
	port := portOf(t, host.Listen(t, at+":0"))
	other := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, "internal") })
	another := portOf(t, other.Listen(t, at+":0"))
	other.Listen(t, elsewhere+":"+port)
	seed := "http://seed.test:" + port
	literal := "http://" + at + ":" + port
	siblings := []string{
		"http://seed.test:" + another + "/", "http://sub.seed.test:" + port + "/", "http://seed.test.evil.test:" + port + "/",
		"http://" + at + ":" + another + "/", "http://" + elsewhere + ":" + port + "/",
	}
	for _, h := range []string{"sub.seed.test", "seed.test.evil.test"} {
		names.set(h, at)
	}
	for _, scope := range []string{"any", "domain"} {
		names.set("seed.test", at)
		links = append([]string{"/second", literal + "/x"}, siblings...)
		c, out := probed(t, names, func(cfg *assembly.Config) { cfg.Scope.Mode = scope })
		require.NoError(t, c.Run(t.Context(), seed+"/"))
		got := byURL(t, out.list)
		require.Equal(t, 200, got[seed+"/"].Status)
		require.Equal(t, 200, got[seed+"/second"].Status)
		for _, url := range siblings {
			if rec, in := got[url]; in {
				require.Equal(t, "address_denied", class(rec), url)
			} else {
				require.Equal(t, "domain", scope, url)
			}
		}
		if scope == "any" {
			require.Equal(t, 200, got[literal+"/x"].Status, "the user named the address")
		}
	}

	links = nil
	for _, tc := range []struct{ first, then, want string }{
		{at, at, ""},
		{public, at, "address_denied"},
		{public + " " + at, at, "address_denied"},
		{at, elsewhere, "address_denied"},
		{"169.254.169.254", at, "address_denied"},
		{"", at, ""}, // there was no answer yet
	} {
		for _, late := range []bool{false, true} {
			names.set("seed.test", tc.first, tc.then)
			first, later := []string{literal + "/", seed + "/"}, []string(nil)
			if late {
				first, later = first[:1], first[1:]
			}
			c, out := probed(t, names, nil)
			require.NoError(t, c.RunSeq(t.Context(), func(yield func(string) bool) {
				for _, s := range later {
					c.AddSeed(s, request.Request{}) // which has it looked up before it is asked for
					yield(s)
				}
			}, first...))
			require.Equal(t, tc.want, class(byURL(t, out.list)[seed+"/"]), "%+v, late %v", tc, late)
		}
	}
	require.Empty(t, other.Heads())
}

// What seeds have opened is kept: a crawl that goes on opens nothing else, and says how to have
// it opened; a new round looks again.
func TestResumedCrawlsOpenNothingNew(t *testing.T) {
	const at, elsewhere, public = "127.0.24.1", "127.0.24.2", "192.0.66.2"
	names := new(answers)
	host := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, anchors("/a", "/b", "/c")) })
	port := portOf(t, host.Listen(t, at+":0"))
	moved := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, "moved") })
	moved.Listen(t, elsewhere+":"+port)
	seed := "http://seed.test:" + port
	literal := "http://" + at + ":" + port
	for _, tc := range []struct {
		name                   string
		first, resumed, again  string
		wantResumed, wantAgain string
	}{
		{"as it was", at, at, at, "", ""},
		{"elsewhere", at, elsewhere, elsewhere, "address_denied", ""},
		{"public at first", public, at, at, "address_denied", ""},
		{"unknown at first", "", at, at, "address_denied", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if names.set("seed.test", tc.first, tc.resumed); tc.first == "" {
				names.set("seed.test", "") // to the end of the first run
			}
			c, _ := probed(t, names, func(cfg *assembly.Config) { cfg.State.Dir, cfg.MaxPages = dir, 2 })
			require.NoError(t, c.Run(t.Context(), seed+"/", literal+"/"))
			st := openState(t, dir)
			names.set("seed.test", tc.resumed)
			n := 0
			for _, rec := range goOn(t, names, st, nil, seed+"/", seed+"/named-again") {
				if strings.HasPrefix(rec.URL, seed) {
					n++
					require.Equal(t, tc.wantResumed, class(rec), rec.URL)
					if tc.wantResumed != "" {
						require.Contains(t, rec.Error.Message, "seed.test")
						require.Contains(t, rec.Error.Message, "--allow-private")
					}
				} else {
					require.Equal(t, 200, rec.Status, rec.URL)
				}
			}
			require.NotZero(t, n)
			names.set("seed.test", tc.again)
			got := byURL(t, goOn(t, names, openAgain(t, dir, assembly.Again{}), nil))
			require.Equal(t, tc.wantAgain, class(got[seed+"/"]))
			require.Equal(t, 200, got[literal+"/"].Status)
		})
	}
}

// In a round that began anew a name keeps what it was then, when the round goes on.
func TestRoundsOpenWhatNamesWereWhenTheyBegan(t *testing.T) {
	const at, public = "127.0.24.1", "192.0.66.2"
	names := new(answers)
	host := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, anchors("/a", "/b", "/c")) })
	port := portOf(t, host.Listen(t, at+":0"))
	seed, literal := "http://seed.test:"+port, "http://"+at+":"+port
	for _, tc := range []struct{ first, again, resumed, want string }{
		{public, at, at, ""},
		{at, public, at, "address_denied"},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		names.set("seed.test", tc.first, at)
		c, _ := probed(t, names, func(cfg *assembly.Config) { cfg.State.Dir, cfg.Sitemaps.Enabled = dir, false })
		require.NoError(t, c.Run(t.Context(), literal+"/", seed+"/"))

		st := openAgain(t, dir, assembly.Again{})
		names.set("seed.test", tc.again, tc.resumed)
		for round := range 2 { // which is interrupted after a page, and gone on with
			list := goOn(t, names, st, func(cfg *assembly.Config) { cfg.MaxPages = int64(1 - round) })
			for url, rec := range byURL(t, list) {
				if strings.HasPrefix(url, seed) {
					require.Equal(t, tc.want, class(rec), "%s, %+v", url, tc)
				} else {
					require.Equal(t, 200, rec.Status, url)
				}
			}
			if round == 0 {
				require.Len(t, list, 1)
				st = openState(t, dir)
				names.set("seed.test", tc.resumed)
			} else {
				require.GreaterOrEqual(t, len(list), 3)
			}
		}
	}
}

// A state that does not say what its seeds have opened: they open nothing, and the
// records name the flag.
func TestStatesWithoutOpenings(t *testing.T) {
	const at = "127.0.24.1"
	names := new(answers)
	names.set("seed.test", at)
	host := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, anchors("/a", "/b", "/c")) })
	port := portOf(t, host.Listen(t, at+":0"))
	dir := filepath.Join(t.TempDir(), "state")
	c, _ := probed(t, names, func(cfg *assembly.Config) { cfg.State.Dir, cfg.MaxPages = dir, 2 })
	require.NoError(t, c.Run(t.Context(), "http://seed.test:"+port+"/", "http://seed.test:"+port+"/d"))
	db, err := sqlitedb.Open(filepath.Join(dir, "state.db"), sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Exec(`DELETE FROM meta WHERE key LIKE 'opening %'`))
	require.EqualValues(t, 1, db.Changes())
	require.NoError(t, db.Close())
	for _, allowed := range []bool{false, true} {
		list := goOn(t, names, openState(t, dir), func(cfg *assembly.Config) {
			if cfg.Fetch.AllowPrivate = allowed; !allowed {
				cfg.MaxPages = 4
			}
		}, "http://seed.test:"+port+"/named-again")
		require.NotEmpty(t, list)
		for _, rec := range list {
			if allowed {
				require.Equal(t, 200, rec.Status, rec.URL)
			} else {
				require.Equal(t, "address_denied", class(rec), rec.URL)
				require.Contains(t, rec.Error.Message, "--allow-private")
			}
		}
	}
}

// What others bring is no seed of the user's: a client of the console, another process of a job.
func TestSeedsOfOthersOpenNothing(t *testing.T) {
	names := new(answers)
	names.set("seed.test", "127.0.24.2")
	inner := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, "internal") })
	private := inner.Listen(t, "127.0.24.2:0")
	port := portOf(t, private)
	brought := []string{private + "/", "http://localhost:" + port + "/", "http://seed.test:" + port + "/"}
	for _, allowed := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "state")
		console, err := watch.Listen(assembly.ListenConfig{Addr: "127.0.0.1:0"})
		require.NoError(t, err)
		var once sync.Once
		order := func() {
			for _, url := range brought {
				body := bytes.NewBufferString(fmt.Sprintf(`{"url": %q}`, url))
				res, err := http.Post(console.URL()+"api/seeds", "application/json", body)
				require.NoError(t, err)
				require.Equal(t, 200, res.StatusCode, url)
				require.NoError(t, res.Body.Close())
			}
		}
		outer := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool {
			once.Do(order)
			return sayPage(c, "fine")
		})
		c, out := probed(t, names, func(cfg *assembly.Config) {
			cfg.Fetch.AllowPrivate, cfg.State.Dir = allowed, dir
		})
		ctx, leave := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- console.Serve(ctx, c) }()
		require.NoError(t, c.Run(t.Context(), outer.Listen(t, "127.0.24.1:0")+"/"))
		leave()
		require.NoError(t, <-served)
		check := func(list []record.Record) {
			got := byURL(t, list)
			for i, url := range brought {
				switch {
				case !allowed:
					require.Equal(t, "address_denied", class(got[url]), url)
				case i != 1: // there is nobody at 127.0.0.1
					require.Equal(t, 200, got[url].Status, url)
				}
			}
		}
		check(out.list)
		require.Equal(t, allowed, len(inner.Heads()) > 0)

		check(goOn(t, names, openAgain(t, dir, assembly.Again{}), nil))
	}
}

// What a program asks a client for is no seed either, wherever the address comes from.
func TestClientLeadsToNoSpecialAddress(t *testing.T) {
	inner := fetchtest.NewRaw(t, func(c net.Conn, path string) bool {
		if path == "/metadata" {
			return say(c, "302 Found", "Location: http://169.254.169.254/latest\r\n", "")
		}
		return sayPage(c, "internal")
	})
	private := inner.Listen(t, "127.0.24.2:0")
	urls := []string{private, "http://localhost:" + portOf(t, private)}
	for _, a := range special {
		urls = append(urls, "http://"+net.JoinHostPort(a, "7"))
	}
	for _, allowed := range []bool{false, true} {
		c, err := crawl.NewClient(crawl.ClientConfig{Politeness: crawl.PolitenessOptions{Strategy: "fixed", InitialRPS: 1000, MaxRPS: 1000}, Resilience: []byte(`{}`), AllowPrivate: allowed})
		require.NoError(t, err)
		refused := func(url string) bool {
			res, err := c.Get(url)
			if err == nil {
				require.NoError(t, res.Body.Close())
			}
			_, is := errors.AsType[*transport.AddressError](err)
			require.Equal(t, is, err != nil, "%s: %v", url, err)
			return is
		}
		if allowed {
			require.False(t, refused(private))
			for _, url := range []string{private + "/metadata", "http://169.254.169.254/", "http://[fd00:ec2::254]/"} {
				require.True(t, refused(url), url)
			}
		} else {
			for _, url := range urls {
				require.True(t, refused(url), url)
			}
			require.Empty(t, inner.Heads())
		}
		require.NoError(t, c.Close())
	}
}

func portOf(t *testing.T, origin string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(origin, "http://"))
	require.NoError(t, err)
	return port
}
