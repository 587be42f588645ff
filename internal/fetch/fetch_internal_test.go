package fetch

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/http1"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/fetch/resolve"
)

func TestConfigDefaults(t *testing.T) {
	got, err := Config{}.withDefaults()
	require.NoError(t, err)
	require.Equal(t, Config{
		UserAgent:       "Treadlight",
		ConnectTimeout:  10 * time.Second,
		HeaderTimeout:   20 * time.Second,
		BodyTimeout:     15 * time.Second,
		Timeout:         30 * time.Second,
		MaxBody:         10 << 20,
		MaxHeaderBytes:  256 << 10,
		MaxConnsPerHost: 8,
	}, got)
}

func TestConfigErrors(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Config.ConnectTimeout is -1s: use a positive value, or zero for 10s": {ConnectTimeout: -time.Second},
		"Config.HeaderTimeout":             {HeaderTimeout: -1},
		"Config.BodyTimeout":               {BodyTimeout: -1},
		"Config.Timeout is":                {Timeout: -1},
		"Config.MaxBody is -5":             {MaxBody: -5},
		"Config.MaxHeaderBytes":            {MaxHeaderBytes: -1},
		"Config.MaxConnsPerHost":           {MaxConnsPerHost: -1},
		"Config.UserAgent":                 {UserAgent: "a\nb"},
		`Config.Header has the name "a b"`: {Header: http.Header{"a b": nil}},
		"the URL decides the host":         {Header: http.Header{"host": {"b.test"}}},
		"bad value for X":                  {Header: http.Header{"X": {"\x00"}}},
		"Config.Proxy is ftp://u:xxxxx@":   {Proxy: &url.URL{Scheme: "ftp", Host: "p", User: url.UserPassword("u", "p")}},
		"Config.Transport replaces":        {Transport: http.DefaultTransport, Proxy: &url.URL{Scheme: "http", Host: "p"}},
		"and a host":                       {Proxy: &url.URL{Scheme: "http"}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestContentType(t *testing.T) {
	for in, want := range map[string][2]string{
		"":                                 {"", ""},
		"text/html":                        {"text/html", ""},
		" Text/HTML ; Charset=UTF-8":       {"text/html", "utf-8"},
		`text/html;charset="Shift_JIS"`:    {"text/html", "shift_jis"},
		"text/html; charset='gbk'":         {"text/html", "gbk"},
		`text/html; charset="utf-8`:        {"text/html", "utf-8"},
		"text/html; charset":               {"text/html", ""},
		"text/html; =; x=y;charset = a; z": {"text/html", "a"},
		"html":                             {"", ""},
		"html; charset=utf-8":              {"", "utf-8"},
		// Several are several lines, or one with commas: the last that is one counts.
		"text/html, text/plain":                         {"text/plain", ""},
		"text/plain\ntext/html":                         {"text/html", ""},
		"text/html\nnonsense":                           {"text/html", ""},
		"nonsense\ntext/html; charset=gbk":              {"text/html", "gbk"},
		"text/html; charset=gbk\n*/*":                   {"text/html", "gbk"},
		"text/html; charset=gbk\ntext/html":             {"text/html", "gbk"},
		"text/html; charset=gbk\ntext/html;charset=x":   {"text/html", "x"},
		"text/plain; charset=gbk\ntext/html":            {"text/html", ""},
		"text/html; charset=gbk, text/plain, text/html": {"text/html", ""},
		"text/html; x=\",text/plain\";charset=\"gbk\"":  {"text/html", "gbk"},
		",\n,text/html,":                                {"text/html", ""},
	} {
		media, charset := contentType(strings.Split(in, "\n"))
		require.Equal(t, want, [2]string{media, charset}, in)
	}
}

func TestErrorText(t *testing.T) {
	err := newError(OpHeader, "http://u:p@a.test/?token=secret", errors.New("broken"))
	require.EqualError(t, err, "header http://a.test/?token=xxx: broken")
	require.EqualError(t, &timeoutError{"no more of the body", 15 * time.Second}, "no more of the body in 15s")
}

func TestBuffersAreKeptWithinABound(t *testing.T) {
	var p buffers
	a := p.get(100)
	require.Equal(t, firstRead, cap(a.b))
	a.b = append(a.b, "text"...)
	p.put(a)
	require.Same(t, a, p.get(firstRead))
	require.Empty(t, a.b)
	require.Zero(t, p.held)
	require.Equal(t, 2*firstRead, cap(p.get(firstRead+1).b), "room for the next one")
	require.Equal(t, maxPooled, cap(p.get(1<<40).b), "a claim is not believed")

	p.put(&buffer{make([]byte, 0, maxPooled+1)})
	p.put(&buffer{make([]byte, 0, firstRead-1)})
	require.Zero(t, p.held, "made for one page")
	for range 2 * maxHeld / maxPooled {
		p.put(&buffer{make([]byte, 0, maxPooled)})
	}
	require.Equal(t, maxHeld, p.held)
	require.Len(t, p.free[sizes-1], maxHeld/maxPooled)

	small := p.get(0)
	require.Equal(t, maxPooled, cap(small.b), "what is there serves")
	p.put(small)
	p.put(&buffer{make([]byte, 0, firstRead)})
	require.Len(t, p.free[sizes-1], maxHeld/maxPooled-1, "a large one makes way")
	require.Equal(t, maxHeld-maxPooled+firstRead, p.held)
	require.Equal(t, firstRead, cap(p.get(1).b), "and is not taken where a small one will do")
}

func TestBufferGrowsThroughThePool(t *testing.T) {
	var p buffers
	p.put(&buffer{make([]byte, 0, 2*firstRead)})
	page := bytes.Repeat([]byte("0123456789"), maxPooled/5)
	buf := p.get(-1)
	require.Equal(t, 2*firstRead, cap(buf.b))
	more, err := p.fill(buf, bytes.NewReader(page), -1, int64(len(page)))
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, page, buf.b)
	require.Len(t, p.free[sizeOf(2*firstRead)], 1, "what was outgrown is there for others")
	more, err = p.fill(p.get(0), bytes.NewReader(page), -1, 5*firstRead)
	require.NoError(t, err)
	require.True(t, more)

	page = page[:3*maxPooled/2]
	for _, test := range []struct{ length, want int }{
		{-1, 2 * maxPooled}, // not announced
		{len(page), len(page) + 1},
		{len(page) - 1, 2 * len(page)}, // it lied, or was decoded
		{maxPooled / 2, 2 * maxPooled},
		{1 << 40, 2 * maxPooled}, // a claim is worth what has come
	} {
		buf := p.get(int64(test.length))
		more, err := p.fill(buf, bytes.NewReader(page), int64(test.length), 8*maxPooled)
		require.NoError(t, err)
		require.False(t, more)
		require.Equal(t, page, buf.b)
		require.Equal(t, test.want, cap(buf.b), "announced as %d", test.length)
	}
}

// FuzzParseURL: what is accepted reaches the wire as it was spelled.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"http://a.test/", "https://a.test:8/x?y", "http://a.test:/", "http://127.0.0.1:80/%41#x", "http://a-b.test/#?", "http://-/|", "http://a.test//%", "http://a.test/a|b", "http://a.test?", "http://u@a.test/%2f",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := parseURL(raw)
		if err != nil {
			return
		}
		line := strings.TrimPrefix(u.RequestURI(), u.Scheme+"://"+u.Host)
		spelled, _, _ := strings.Cut(raw, "#")
		if !strings.HasSuffix(spelled, strings.TrimPrefix(line, "/")) || !http1.Visible(line) || line[0] != '/' {
			t.Errorf("parseURL(%q) asks for %q", raw, line)
		}
	})
}

// A proxy is not told to connect inwards either: to no address, no name that means nothing
// elsewhere, and none that leads there as far as can be found out here.
func TestInward(t *testing.T) {
	found := map[string]string{"public.test": "8.8.8.8", "private.test": "10.0.0.1", "cloud.test": "169.254.169.254", "seed.test": "10.0.0.2", "moved.test": "10.0.0.3"}
	resolver, err := resolve.New(resolve.Config{Lookup: func(ctx context.Context, _, host string) ([]netip.Addr, error) {
		if a, ok := found[host]; ok {
			return []netip.Addr{netip.MustParseAddr(a)}, nil
		}
		<-ctx.Done() // as where nobody answers
		return nil, ctx.Err()
	}})
	require.NoError(t, err)
	defer resolver.Close()
	for _, tc := range []struct {
		addr                  string
		usual, unseen, opened bool // whether it may: by http, by socks5h, and with AllowPrivate
	}{
		{"example.com:80", true, true, true},
		{"public.test:80", true, true, true},
		{"private.test:80", false, true, true},
		{"cloud.test:80", false, true, true},
		{"seed.test:80", true, true, true},
		{"seed.test:81", false, true, true},
		{"moved.test:80", false, true, true},
		{"intranet:80", false, false, true},
		{"wiki:80", true, true, true}, // the user named it
		{"wiki:81", false, false, true},
		{"8.8.8.8:80", true, true, true},
		{"[64:ff9b::8.8.8.8]:80", true, true, true},
		{"10.0.0.1:80", false, false, true},
		{"10.0.0.9:80", true, true, true},
		{"10.0.0.9:81", false, false, true},
		{"[64:ff9b::10.0.0.1]:80", false, false, true},
		{"localhost:80", false, false, true},
		{"x.localhost.:80", false, false, true},
		{"169.254.169.254:80", false, false, false},
		{"[fe80::1%eth0]:80", false, false, false},
		{"[64:ff9b::169.254.169.254]:80", false, false, false},
		{"100.100.100.200:80", false, false, false},
	} {
		for _, how := range []struct {
			proxy string
			open  bool
			want  bool
		}{{"http://p.test", false, tc.usual}, {"socks5h://p.test", false, tc.unseen}, {"http://p.test", true, tc.opened}} {
			o := new(reach.Openings)
			o.Name("10.0.0.9", 80)
			o.Name("wiki", 80)
			for _, name := range []string{"seed.test", "moved.test"} {
				o.Name(name, 80)
				o.Decide(name, []netip.Addr{netip.MustParseAddr("10.0.0.2")})
			}
			d, err := newDialer(Config{Openings: o, AllowPrivate: how.open, Resolver: resolver}, nil)
			require.NoError(t, err)
			via, err := url.Parse(how.proxy)
			require.NoError(t, err)
			ctx, done := context.WithCancel(t.Context())
			if _, ok := found[tc.addr[:len(tc.addr)-len(":80")]]; !ok {
				done() // nobody waits
			}
			require.Equal(t, how.want, d.inward(ctx, via, tc.addr) == nil, "%s by %s, private ones allowed %v", tc.addr, how.proxy, how.open)
			done()
			d.close()
		}
	}
	require.ErrorContains(t, refuse("169.254.169.254")("169.254.169.254:80"), "only dialled if a seed or --resolve names it")
	require.EqualError(t, refuse("a.test")("10.0.0.1:80"),
		"address 10.0.0.1:80 of a.test is not on the public Internet, and no seed opened it when the crawl began: to have it dialled, give --allow-private, or set fetch.allow_private")
}

type way struct {
	after time.Duration
	err   error
}

type roads struct {
	ways map[string]way

	mu    sync.Mutex
	tried []string
	most  int // attempts at a time
	now   int
	open  int
}

func (r *roads) dial(ctx context.Context, a netip.Addr) (net.Conn, error) {
	r.mu.Lock()
	r.tried = append(r.tried, a.String())
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.now--
		r.mu.Unlock()
	}()
	w := r.ways[a.String()]
	if err := clock.Sleep(ctx, clock.System(), w.after); err != nil && w.after > 0 {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	r.mu.Lock()
	r.open++
	r.mu.Unlock()
	near, far := net.Pipe()
	_ = far.Close()
	return &counted{near, r}, nil
}

type counted struct {
	net.Conn
	r *roads
}

func (c *counted) Close() error {
	c.r.mu.Lock()
	c.r.open--
	c.r.mu.Unlock()
	return c.Conn.Close()
}

func list(names ...string) (out []netip.Addr) {
	for _, s := range names {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestRace(t *testing.T) {
	down, lost := errors.New("down"), errors.New("lost")
	const six1, six2, four1, four2 = "2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"
	for name, tc := range map[string]struct {
		addrs []netip.Addr
		ways  map[string]way
		tried []string
		took  time.Duration
		err   error
	}{
		"one":                     {list(four1), map[string]way{four1: {after: time.Second}}, []string{four1}, time.Second, nil},
		"the first at once":       {list(six1, four1), nil, []string{six1}, 0, nil},
		"the first is slow":       {list(six1, four1), map[string]way{six1: {after: time.Hour}}, []string{six1, four1}, 300 * time.Millisecond, nil},
		"the first is a bit slow": {list(six1, four1), map[string]way{six1: {after: 400 * time.Millisecond}, four1: {after: time.Second}}, []string{six1, four1}, 400 * time.Millisecond, nil},
		"the first is down":       {list(six1, four1), map[string]way{six1: {err: down}}, []string{six1, four1}, 0, nil},
		"IPv4 preferred":          {list(four1, six1), map[string]way{four1: {err: down}}, []string{four1, six1}, 0, nil},
		"one after another":       {list(four1, four2), map[string]way{four1: {err: down}}, []string{four1, four2}, 0, nil},
		"of one version":          {list(four1, four2), map[string]way{four1: {after: time.Hour}}, []string{four1, four2}, 300 * time.Millisecond, nil},
		"all down":                {list(six1, four1), map[string]way{six1: {err: down}, four1: {err: lost}}, []string{six1, four1}, 0, down},
		"all of one down":         {list(four1, four2), map[string]way{four1: {err: lost}, four2: {err: down}}, []string{four1, four2}, 0, lost},
		"all slow":                {list(six1, four1), map[string]way{six1: {after: time.Hour}, four1: {after: time.Hour}}, []string{six1, four1}, 10 * time.Second, context.DeadlineExceeded},
		"mixed": {
			list(six1, four1, six2, four2),
			map[string]way{six1: {after: time.Hour}, six2: {after: time.Hour}, four1: {after: time.Second, err: down}},
			[]string{six1, four1, six2, four2},
			2500 * time.Millisecond, nil, // when the share of six1 is over
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				r := &roads{ways: tc.ways}
				begin := time.Now()
				c, err := race(ctx, tc.addrs, r.dial)
				require.ErrorIs(t, err, tc.err)
				require.Equal(t, tc.took, time.Since(begin))
				require.Equal(t, tc.tried, r.tried)
				require.LessOrEqual(t, r.most, 2, "no host gets more than two at a time")
				if err == nil {
					require.Equal(t, 1, r.open)
					require.NoError(t, c.Close())
				}
				require.Zero(t, r.open, "the loser is closed")
			})
		})
	}
}

// TestRaceEndsTogether: both arrive in the same instant, and one of them stays.
func TestRaceEndsTogether(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			r := &roads{ways: map[string]way{"2001:db8::1": {after: time.Second}, "192.0.2.1": {after: 700 * time.Millisecond}}}
			c, err := race(t.Context(), list("2001:db8::1", "192.0.2.1"), r.dial)
			require.NoError(t, err)
			require.Equal(t, 1, r.open)
			require.NoError(t, c.Close())
		})
	}
}

func TestRaceWithoutTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		r := new(roads)
		for _, addrs := range [][]netip.Addr{list("192.0.2.1"), list("192.0.2.1", "2001:db8::1")} {
			_, err := race(ctx, addrs, r.dial)
			require.ErrorIs(t, err, cause)
		}
		require.Empty(t, r.tried)
	})
}
