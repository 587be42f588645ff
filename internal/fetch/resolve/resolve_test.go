package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/treadlight/crawl/internal/fetch/resolve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type zone struct {
	mu    sync.Mutex
	names map[string][]netip.Addr
	err   error         // of all answers, if set
	takes time.Duration // an answer
	asked map[string]int
}

func (z *zone) lookup(ctx context.Context, network, host string) ([]netip.Addr, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.asked == nil {
		z.asked = make(map[string]int)
	}
	z.asked[network+" "+host]++
	if z.takes > 0 {
		z.mu.Unlock()
		select {
		case <-time.After(z.takes):
		case <-ctx.Done():
		}
		z.mu.Lock()
		if ctx.Err() != nil {
			return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
		}
	}
	if z.err != nil {
		return nil, z.err
	}
	if len(z.names[host]) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return z.names[host], nil
}

func (z *zone) count(host string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked["ip "+host]
}

func (z *zone) set(host string, addrs ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.names == nil {
		z.names = make(map[string][]netip.Addr)
	}
	z.names[host] = parse(addrs...)
}

func (z *zone) fail(err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.err = err
}

func parse(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

var errServers = &net.DNSError{Err: "server misbehaving", IsTemporary: true}

func newResolver(t *testing.T, cfg resolve.Config) *resolve.Resolver {
	t.Helper()
	r, err := resolve.New(cfg)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func withZone(t *testing.T, z *zone, cfg resolve.Config, test func(*testing.T, *zone, *resolve.Resolver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		z.set("a.test", "192.0.2.1")
		cfg.Lookup = z.lookup
		test(t, z, newResolver(t, cfg))
	})
}

func addrs(t *testing.T, r *resolve.Resolver, host string) []netip.Addr {
	t.Helper()
	a, err := r.Lookup(t.Context(), host, 80)
	require.NoError(t, err)
	require.False(t, a.Static)
	return a.Addrs
}

func isNotFound(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}

func TestAnswersAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := new(zone)
		z.set("a.test", "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "192.0.2.1")
		r := newResolver(t, resolve.Config{Lookup: z.lookup})
		for _, name := range []string{"a.test", "A.Test", "a.test."} {
			require.Equal(t, parse("192.0.2.1", "2001:db8::1"), addrs(t, r, name), "each once")
		}
		require.Equal(t, 1, z.count("a.test"))
		time.Sleep(2*time.Minute - 1)
		addrs(t, r, "a.test")
		require.Equal(t, 1, z.count("a.test"))
		z.set("a.test", "192.0.2.2")
		time.Sleep(time.Nanosecond)
		require.Equal(t, parse("192.0.2.2"), addrs(t, r, "a.test"))
		require.Equal(t, 2, z.count("a.test"))
	})
}

func TestNoNameIsKeptShorter(t *testing.T) {
	withZone(t, new(zone), resolve.Config{}, func(t *testing.T, z *zone, r *resolve.Resolver) {
		for range 3 {
			_, err := r.Lookup(t.Context(), "gone.test", 80)
			require.True(t, isNotFound(err), err)
		}
		require.Equal(t, 1, z.count("gone.test"))
		time.Sleep(30 * time.Second)
		z.set("gone.test", "192.0.2.1")
		require.Equal(t, parse("192.0.2.1"), addrs(t, r, "gone.test"))
	})
}

// TestFailuresAreNotKept: that no server answers says nothing of the name.
func TestFailuresAreNotKept(t *testing.T) {
	withZone(t, &zone{err: errServers}, resolve.Config{}, func(t *testing.T, z *zone, r *resolve.Resolver) {
		for range 2 {
			_, err := r.Lookup(t.Context(), "a.test", 80)
			require.ErrorIs(t, err, errServers)
		}
		require.Equal(t, 2, z.count("a.test"))
	})
}

func TestStaleAnswersServeWhileThereAreNone(t *testing.T) {
	withZone(t, new(zone), resolve.Config{}, func(t *testing.T, z *zone, r *resolve.Resolver) {
		addrs(t, r, "a.test")
		z.fail(errServers)
		time.Sleep(time.Hour)
		require.Equal(t, parse("192.0.2.1"), addrs(t, r, "a.test"))
		addrs(t, r, "a.test")
		require.Equal(t, 2, z.count("a.test"), "not asked for at each use")
		time.Sleep(30 * time.Second)
		addrs(t, r, "a.test")
		require.Equal(t, 3, z.count("a.test"))
		time.Sleep(2 * time.Minute)
		_, err := r.Lookup(t.Context(), "a.test", 80)
		require.ErrorIs(t, err, errServers, "too old by now")
	})
}

// TestANameThatIsGoneIsGone: a stale answer is for servers that fail, not for a no.
func TestANameThatIsGoneIsGone(t *testing.T) {
	withZone(t, new(zone), resolve.Config{}, func(t *testing.T, z *zone, r *resolve.Resolver) {
		addrs(t, r, "a.test")
		time.Sleep(3 * time.Minute)
		z.set("a.test")
		_, err := r.Lookup(t.Context(), "a.test", 80)
		require.True(t, isNotFound(err), err)
		z.fail(errServers)
		time.Sleep(time.Minute)
		_, err = r.Lookup(t.Context(), "a.test", 80)
		require.ErrorIs(t, err, errServers)
	})
}

func TestDoubt(t *testing.T) {
	withZone(t, new(zone), resolve.Config{}, func(t *testing.T, z *zone, r *resolve.Resolver) {
		r.Doubt("a.test") // of what nothing is known
		addrs(t, r, "a.test")
		z.set("a.test", "192.0.2.2")
		r.Doubt("A.test")
		require.Equal(t, parse("192.0.2.2"), addrs(t, r, "a.test"))
		z.fail(errServers)
		r.Doubt("a.test")
		require.Equal(t, parse("192.0.2.2"), addrs(t, r, "a.test"), "no better is to be had")
	})
}

// TestOneLookupForAll: it serves who came meanwhile, and outlives who gave up.
func TestOneLookupForAll(t *testing.T) {
	withZone(t, &zone{takes: 3 * time.Second}, resolve.Config{}, func(t *testing.T, z *zone, r *resolve.Resolver) {
		var all sync.WaitGroup
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begin := time.Now()
			_, err := r.Lookup(ctx, "a.test", 80)
			dns, ok := errors.AsType[*net.DNSError](err)
			require.True(t, ok && dns.IsTimeout && !dns.IsNotFound, err)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, time.Since(begin))
		})
		for range 50 {
			all.Go(func() { require.Equal(t, parse("192.0.2.1"), addrs(t, r, "a.test")) })
		}
		all.Wait()
		require.Equal(t, 1, z.count("a.test"))
	})
}

func TestLookupsEnd(t *testing.T) {
	withZone(t, &zone{takes: time.Hour}, resolve.Config{Timeout: 4 * time.Second}, func(t *testing.T, _ *zone, r *resolve.Resolver) {
		begin := time.Now()
		_, err := r.Lookup(t.Context(), "a.test", 80)
		require.ErrorContains(t, err, "i/o timeout")
		require.Equal(t, 4*time.Second, time.Since(begin))
	})
}

func TestCloseEndsLookups(t *testing.T) {
	withZone(t, &zone{takes: time.Hour}, resolve.Config{}, func(t *testing.T, _ *zone, r *resolve.Resolver) {
		done := make(chan error)
		go func() {
			_, err := r.Lookup(t.Context(), "a.test", 80)
			done <- err
		}()
		synctest.Wait()
		go r.Close()
		require.ErrorIs(t, <-done, resolve.ErrClosed)
		_, err := r.Lookup(t.Context(), "b.test", 80)
		require.ErrorIs(t, err, resolve.ErrClosed)
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	withZone(t, new(zone), resolve.Config{Max: 10}, func(t *testing.T, z *zone, r *resolve.Resolver) {
		for i := range 20 {
			name := fmt.Sprintf("h%d.test", i)
			z.set(name, "192.0.2.1")
			addrs(t, r, name)
		}
		addrs(t, r, "h19.test")
		addrs(t, r, "h0.test")
		require.Equal(t, 1, z.count("h19.test"))
		require.Equal(t, 2, z.count("h0.test"), "it was forgotten")
	})
}

func TestNothingIsKept(t *testing.T) {
	z := new(zone)
	z.set("a.test", "192.0.2.1")
	r := newResolver(t, resolve.Config{Lookup: z.lookup, TTL: -1})
	for i := range 3 {
		addrs(t, r, "a.test")
		require.Equal(t, i+1, z.count("a.test"))
	}
}

func TestFamily(t *testing.T) {
	for _, tc := range []struct {
		family resolve.Family
		host   string
		want   []netip.Addr // nil: no such host
	}{
		{resolve.Any, "both.test", parse("2001:db8::1", "192.0.2.1")},
		{resolve.IPv4, "both.test", parse("192.0.2.1")},
		{resolve.IPv6, "both.test", parse("2001:db8::1")},
		{resolve.IPv4, "six.test", nil},
		{resolve.IPv4, "2001:db8::7", nil},
		{resolve.IPv6, "2001:db8::7", parse("2001:db8::7")},
		{resolve.IPv6, "192.0.2.7", nil},
		{resolve.IPv4, "192.0.2.7", parse("192.0.2.7")},
		{resolve.Any, "fe80::1%eth0", parse("fe80::1%eth0")},
	} {
		z := new(zone)
		z.set("both.test", "2001:db8::1", "192.0.2.1")
		z.set("six.test", "2001:db8::6")
		r := newResolver(t, resolve.Config{Lookup: z.lookup, Family: tc.family})
		a, err := r.Lookup(t.Context(), tc.host, 443)
		if tc.want == nil {
			require.True(t, isNotFound(err), "%v %s: %v", tc.family, tc.host, err)
			require.ErrorContains(t, err, fmt.Sprintf("no IPv%d address", map[resolve.Family]int{resolve.IPv4: 4, resolve.IPv6: 6}[tc.family]))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tc.want, a.Addrs, "%v %s", tc.family, tc.host)
	}
}

// TestFamilyIsAskedFor: of name servers, only what is wanted.
func TestFamilyIsAskedFor(t *testing.T) {
	z := new(zone)
	z.set("a.test", "192.0.2.1")
	r := newResolver(t, resolve.Config{Lookup: z.lookup, Family: resolve.IPv4})
	addrs(t, r, "a.test")
	require.Equal(t, map[string]int{"ip4 a.test": 1}, z.asked)
}

func TestManyAddressesAreCut(t *testing.T) {
	z := new(zone)
	list := make([]string, 300)
	for i := range list {
		list[i] = fmt.Sprintf("192.0.2.%d", i%256)
	}
	z.set("many.test", list...)
	r := newResolver(t, resolve.Config{Lookup: z.lookup})
	require.Len(t, addrs(t, r, "many.test"), 16)
}

func TestConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]resolve.Config{
		"Config.Max is -1":       {Max: -1},
		"Timeout -1s":            {Timeout: -time.Second},
		"Family 9":               {Family: 9},
		"is no name server":      {Server: "dns.test"},
		`"192.0.2.1:0" is no`:    {Server: "192.0.2.1:0"},
		`"192.0.2.1:dns" is no`:  {Server: "192.0.2.1:dns"},
		"resolve: Config.Server": {Server: "x"},
	} {
		_, err := resolve.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestParseServer(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1:53", "192.0.2.1:5353": "192.0.2.1:5353",
		"2001:db8::1": "[2001:db8::1]:53", "[2001:db8::1]": "[2001:db8::1]:53", "[2001:db8::1]:54": "[2001:db8::1]:54",
	} {
		at, err := resolve.ParseServer(in)
		require.NoError(t, err, in)
		require.Equal(t, want, at.String())
	}
}

func TestParseStatic(t *testing.T) {
	for in, want := range map[string]resolve.Static{
		"a.test:443:192.0.2.1":               {Host: "a.test", Port: 443, Addrs: parse("192.0.2.1")},
		"A.Test.:*:192.0.2.1,[2001:db8::1]":  {Host: "a.test", Addrs: parse("192.0.2.1", "2001:db8::1")},
		"*:80:127.0.0.1, ::1":                {Host: "*", Port: 80, Addrs: parse("127.0.0.1", "::1")},
		"[2001:db8::1]:443:2001:db8::2":      {Host: "2001:db8::1", Port: 443, Addrs: parse("2001:db8::2")},
		"a.test:80:::ffff:192.0.2.1":         {Host: "a.test", Port: 80, Addrs: parse("192.0.2.1")},
		"xn--bcher-kva.test:8080:192.0.2.15": {Host: "xn--bcher-kva.test", Port: 8080, Addrs: parse("192.0.2.15")},
	} {
		got, err := resolve.ParseStatic(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
}

func TestParseStaticRejects(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "is not complete; give HOST:PORT:ADDRESS",
		"a.test":               "is not complete",
		"a.test:443":           "is not complete",
		":443:192.0.2.1":       "is not complete",
		"http://a:443:1.1.1.1": "has the port",
		"a b:443:192.0.2.1":    "is not complete",
		"a.test:x:192.0.2.1":   `has the port "x"; give 1 to 65535, or * for every port`,
		"a.test:0:192.0.2.1":   `has the port "0"`,
		"a.test:65536:1.1.1.1": `has the port "65536"`,
		"a.test:443:":          `has the address ""; give IP addresses`,
		"a.test:443:b.test":    `has the address "b.test"`,
		"a.test:443:1.1.1.1,":  `has the address ""`,
		"a.test:443:1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,1.1.1.9,1.1.1.10,1.1.1.11,1.1.1.12,1.1.1.13,1.1.1.14,1.1.1.15,1.1.1.16,1.1.1.17": "more than 16 addresses",
	} {
		_, err := resolve.ParseStatic(in)
		require.ErrorContains(t, err, want, in)
	}
}

func TestStaticGoesFirst(t *testing.T) {
	z := new(zone)
	z.set("a.test", "192.0.2.9")
	r := newResolver(t, resolve.Config{Lookup: z.lookup, Family: resolve.IPv4, Static: []resolve.Static{
		{Host: "a.test", Port: 443, Addrs: parse("127.0.0.1")},
		{Host: "*", Port: 8080, Addrs: parse("127.0.0.2")},
		{Host: "192.0.2.5", Addrs: parse("::1")},
	}})
	for _, tc := range []struct {
		host   string
		port   uint16
		want   string
		static bool
	}{
		{"A.test.", 443, "127.0.0.1", true},
		{"a.test", 80, "192.0.2.9", false},
		{"anything.test", 8080, "127.0.0.2", true},
		{"192.0.2.5", 80, "::1", true}, // what the user says goes before access.family, too
	} {
		a, err := r.Lookup(t.Context(), tc.host, tc.port)
		require.NoError(t, err)
		require.Equal(t, resolve.Answer{Addrs: parse(tc.want), Static: tc.static}, a, tc.host)
	}
	require.Equal(t, 1, z.count("a.test")+z.asked["ip4 a.test"])
}

// TestServerIsAsked has a name server of its own on loopback.
func TestServerIsAsked(t *testing.T) {
	at := nameServer(t, netip.MustParseAddr("192.0.2.33"))
	r := newResolver(t, resolve.Config{Server: at, Family: resolve.IPv4})
	a, err := r.Lookup(t.Context(), "a.test", 80)
	require.NoError(t, err)
	require.Equal(t, parse("192.0.2.33"), a.Addrs)
	_, err = r.Lookup(t.Context(), "gone.test", 80)
	require.True(t, isNotFound(err), err)
}

func nameServer(t *testing.T, where netip.Addr) string {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(context.Background(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if answer := dnsAnswer(buf[:n], where); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return conn.LocalAddr().String()
}

func dnsAnswer(query []byte, where netip.Addr) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	switch {
	case q.Name.String() != "a.test.":
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
			Body:   &dnsmessage.AResource{A: where.As4()},
		}}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

func FuzzParseStatic(f *testing.F) {
	for _, s := range []string{"a.test:443:192.0.2.1", "[::1]:*:::1,1.1.1.1", "*:80:x", "::::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		st, err := resolve.ParseStatic(s)
		if err != nil {
			return
		}
		require.NotEmpty(t, st.Addrs)
		require.NotEmpty(t, st.Host)
		for _, a := range st.Addrs {
			require.True(t, a.IsValid())
		}
	})
}
