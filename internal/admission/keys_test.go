package admission_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/admission"
)

func asked(peer string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/a", nil)
	r.RemoteAddr = peer
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func keyOf(key admission.KeyFunc, r *http.Request) string {
	return must(key(r))
}

func prefixes(all ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(all))
	for i, s := range all {
		list[i] = netip.MustParsePrefix(s)
	}
	return list
}

func TestClientIP(t *testing.T) {
	ten := prefixes("10.0.0.0/8")
	for _, tc := range []struct {
		name    string
		trusted []netip.Prefix
		peer    string
		headers string // " | " between them; XFF is X-Forwarded-For
		want    string
	}{
		{"the peer", nil, "192.0.2.1:1234", "", "ip:192.0.2.1"},
		{
			"headers of who is not trusted", ten, "192.0.2.1:1", "XFF: 203.0.113.9 | X-Real-IP: 203.0.113.9",
			"ip:192.0.2.1",
		},
		{
			"headers without trusted proxies", nil, "10.0.0.1:1", "XFF: 203.0.113.9 | X-Real-IP: 203.0.113.9",
			"ip:10.0.0.1",
		},
		{"leftmost address is the attacker's", ten, "10.0.0.1:1", "XFF: 1.1.1.1, 203.0.113.9", "ip:203.0.113.9"},
		{
			"trusted hops are passed over", ten, "10.0.0.1:1", "XFF: 1.1.1.1, 203.0.113.9,10.0.0.3 ,10.0.0.2",
			"ip:203.0.113.9",
		},
		{
			"raw header lines are joined", ten, "10.0.0.1:1", "XFF: 1.1.1.1 | XFF: 203.0.113.9 | XFF: 10.0.0.2",
			"ip:203.0.113.9",
		},
		{"unparseable hop stops the walk", ten, "10.0.0.1:1", "XFF: 203.0.113.9, unknown, 10.0.0.7", "ip:10.0.0.7"},
		{"empty hop stops the walk", ten, "10.0.0.1:1", "XFF: 203.0.113.9,,10.0.0.7", "ip:10.0.0.7"},
		{"nothing to be read", ten, "10.0.0.1:1", "XFF: _hidden", "ip:10.0.0.1"},
		{"all hops trusted", ten, "10.0.0.1:1", "XFF: 10.0.0.9, 10.0.0.8", "ip:10.0.0.9"},
		{
			"hops with ports", prefixes("10.0.0.0/8", "fd00::/8"), "10.0.0.1:1",
			"XFF: 203.0.113.9:5555, [fd00::1]:80, [fd00::2]", "ip:203.0.113.9",
		},
		{"X-Real-IP", ten, "10.0.0.1:1", "X-Real-IP: 203.0.113.9", "ip:203.0.113.9"},
		{"X-Real-IP twice", ten, "10.0.0.1:1", "X-Real-IP: 203.0.113.9 | X-Real-IP: 203.0.113.8", "ip:10.0.0.1"},
		{
			"X-Forwarded-For goes before X-Real-IP", ten, "10.0.0.1:1",
			"X-Real-IP: 1.1.1.1 | XFF: 203.0.113.9", "ip:203.0.113.9",
		},
		{"IPv6 is a /64", nil, "[2001:db8:1:2:3:4:5:6]:1", "", "ip:2001:db8:1:2::/64"},
		{"IPv6 with a zone", nil, "[fe80::1%eth0]:1", "", "ip:fe80::/64"},
		{"IPv4 mapped into IPv6 is IPv4", nil, "[::ffff:192.0.2.1]:1", "", "ip:192.0.2.1"},
		{"a mapped proxy is trusted", ten, "[::ffff:10.0.0.1]:1", "XFF: ::ffff:203.0.113.9", "ip:203.0.113.9"},
		{"a mapped prefix", prefixes("::ffff:10.0.0.0/104"), "10.0.0.1:1", "XFF: 203.0.113.9", "ip:203.0.113.9"},
		{"no port", nil, "192.0.2.1", "", "ip:192.0.2.1"},
		{"a Unix socket", nil, "@", "", "ip:none"},
		{"a Unix socket is not trusted by itself", ten, "@", "XFF: 203.0.113.9", "ip:none"},
		{"a Unix socket is as local as loopback", prefixes("127.0.0.0/8"), "@", "XFF: 203.0.113.9", "ip:203.0.113.9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var headers []string
			if tc.headers != "" {
				headers = strings.Split(strings.ReplaceAll(tc.headers, "XFF", "X-Forwarded-For"), " | ")
			}
			require.Equal(t, tc.want, keyOf(admission.ClientIP(tc.trusted...), asked(tc.peer, headers...)))
		})
	}
}

// FuzzForwardedFor has the law of the walk: what a client writes to the left of what our
// proxy has written makes no difference, whatever it is and on however many lines.
func FuzzForwardedFor(f *testing.F) {
	for _, seed := range []string{"", "1.1.1.1", "1.1.1.1, 10.0.0.1", "unknown", ",", "[::1", "10.0.0.9,10.0.0.8", "::1%x", "\x00"} {
		f.Add(seed, seed, uint32(0xCB007109))
	}
	key := admission.ClientIP(prefixes("10.0.0.0/8")...)
	f.Fuzz(func(t *testing.T, line, left string, client uint32) {
		addr := netip.AddrFrom4([4]byte{byte(client>>24) | 128, byte(client >> 16), byte(client >> 8), byte(client)})
		r := asked("10.0.0.1:1")
		r.Header["X-Forwarded-For"] = []string{line, left + "," + addr.String() + ", 10.1.2.3", "10.0.0.2"}
		require.EqualValues(t, "ip:"+addr.String(), keyOf(key, r))
		r.Header["X-Forwarded-For"] = []string{line, left}
		got := keyOf(key, r)
		rest := strings.TrimSuffix(strings.TrimPrefix(got, "ip:"), "/64")
		if a, err := netip.ParseAddr(rest); err != nil || a.Zone() != "" || a.Is4In6() && !strings.HasSuffix(got, "/64") {
			t.Errorf("key = %q of %q", got, r.Header["X-Forwarded-For"])
		}
	})
}

func byHeader(r *http.Request) string { return r.Header.Get("X-User-Id") }

// TestKeys has who cannot be told told apart by the address, which no user and no header can be.
func TestKeys(t *testing.T) {
	user, header := admission.User(byHeader, nil), admission.Header("X-API-KEY", nil)
	for _, tc := range []struct {
		key    admission.KeyFunc
		header []string
		want   string
	}{
		{user, []string{"X-User-Id: ann"}, "user:ann"},
		{user, nil, "ip:192.0.2.1"},
		{user, []string{"X-User-Id: 192.0.2.1"}, "user:192.0.2.1"},
		{admission.User(nil, nil), []string{"X-User-Id: ann"}, "ip:192.0.2.1"},
		{admission.User(byHeader, admission.Global()), nil, "global"},
		{header, []string{"X-Api-Key: k1", "X-Api-Key: k2"}, "header:X-Api-Key:k1"},
		{header, nil, "ip:192.0.2.1"},
		{header, []string{"X-Api-Key: "}, "ip:192.0.2.1"},
		{admission.Composite(admission.ClientIP(), user), []string{"X-User-Id: ann"}, "all:12:ip:192.0.2.18:user:ann"},
	} {
		require.Equal(t, tc.want, keyOf(tc.key, asked("192.0.2.1:1", tc.header...)))
	}
}

func TestRouteKey(t *testing.T) {
	r := asked("192.0.2.1:1")
	r.URL.Path = "/a//b/../c"
	require.Equal(t, "route:GET /a/c", keyOf(admission.Route(), r))
	r.Pattern = "GET /a/{id}"
	require.Equal(t, "route:GET /a/{id}", keyOf(admission.Route(), r))
}

func TestCompositeErrors(t *testing.T) {
	_, err := admission.Composite()(asked("192.0.2.1:1"))
	require.ErrorContains(t, err, "no parts")
	lost := errors.New("lost")
	_, err = admission.Composite(admission.Global(), func(*http.Request) (string, error) { return "", lost })(asked("192.0.2.1:1"))
	require.ErrorIs(t, err, lost)
}

// TestCompositeKeysAreInjective has the law: two lists of parts are one key only if they
// are the same list, though the parts are full of what separates them.
func TestCompositeKeysAreInjective(t *testing.T) {
	r := asked("192.0.2.1:1")
	compose := func(parts []string) string {
		keys := make([]admission.KeyFunc, len(parts))
		for i, p := range parts {
			keys[i] = func(*http.Request) (string, error) { return p, nil }
		}
		return keyOf(admission.Composite(keys...), r)
	}
	require.NotEqual(t, compose([]string{"a:b", "c"}), compose([]string{"a", "b:c"}))
	require.NotEqual(t, compose([]string{"a1:b"}), compose([]string{"a", "b"}))
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringOfN(rapid.SampledFrom([]rune("a1:,+")), 0, 5, -1)
		list := rapid.SliceOfN(part, 1, 4)
		one, two := list.Draw(t, "one"), list.Draw(t, "two")
		if same := compose(one) == compose(two); same != (strings.Join(one, "\x00") == strings.Join(two, "\x00")) {
			t.Fatalf("%q and %q: one key %v", one, two, same)
		}
	})
}
