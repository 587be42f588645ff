package ratelimit

import "testing"

func TestDomain(t *testing.T) {
	for _, tc := range []struct{ host, want string }{
		{"", ""},
		{"example.com", "example.com"},
		{"Example.COM", "example.com"},
		{"example.com.", "example.com"},
		{"example.com:80", "example.com"},
		{"example.com:443", "example.com"},
		{"example.com:0443", "example.com"},
		{"example.com:", "example.com"},
		{"EXAMPLE.com.:80", "example.com"},
		{"example.com:8080", "example.com:8080"},
		{"example.com:08080", "example.com:8080"},
		{"a_b.example.com", "a_b.example.com"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"BÜCHER.example:8080", "xn--bcher-kva.example:8080"},
		{"XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"bücher。example", "xn--bcher-kva.example"},
		{"127.0.0.1:8080", "127.0.0.1:8080"},
		{"127.0.0.1:80", "127.0.0.1"},
		{"[::1]", "[::1]"},
		{"[::1]:443", "[::1]"},
		{"[::1]:8080", "[::1]:8080"},
		{"::1", "[::1]"},
		{"[2001:DB8:0:0::1]:80", "[2001:db8::1]"},
		{"[::ffff:192.0.2.1]:8080", "192.0.2.1:8080"},
		{"not a host", "not a host"},
		{"0:.", "0"},
		{"a:b:c", "a:b:c"},
	} {
		if got := Domain(tc.host); got != tc.want {
			t.Errorf("Domain(%q) = %q, want %q", tc.host, got, tc.want)
		}
	}
}

func TestDomainOfACleanNameAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Domain("www.example.com:8080") }); n != 0 {
		t.Errorf("Domain of a clean name allocates %v times, want 0", n)
	}
}

func FuzzDomain(f *testing.F) {
	for _, s := range []string{"Example.com:80", "[::1]:8080", "bücher.example.", "a：80", "::ffff:1.2.3.4", "[fe80::1%25eth0]", "İ.example", "a.:443", "[[::1]]", "0:."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		once := Domain(host)
		if twice := Domain(once); twice != once {
			t.Errorf("Domain(%q) = %q, and Domain of that is %q", host, once, twice)
		}
	})
}
