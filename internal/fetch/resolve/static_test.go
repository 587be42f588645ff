package resolve_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/treadlight/crawl/internal/fetch/resolve"
)

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
