package canonical

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

// checkURL holds every law a URL obeys, wherever it came from.
func checkURL(t *testing.T, u URL) {
	t.Helper()
	s := u.String()
	again, err := Parse(s)
	if err != nil || again != u {
		t.Fatalf("Parse(%q) = %q, %v: not the spelling of itself", s, again, err)
	}
	if Restore(s) != u {
		t.Fatalf("Restore(%q) is another URL", s)
	}
	if u.Host() == "" || u.Hostname() == "" || u.Path() == "" || u.Path()[0] != '/' || u.Origin()+u.Path() != s {
		t.Fatalf("%q: host %q, path %q", s, u.Host(), u.Path())
	}
	if strings.ContainsAny(s, "# \"<>\\") && strings.ContainsAny(u.Origin(), "\\@") || strings.ContainsRune(s, '#') || len(s) > MaxLength {
		t.Fatalf("%q is not canonical", s)
	}
	if parsed, err := url.Parse(s); err == nil && *parsed != *u.Parsed() || err != nil && u.Parsed().String() != s {
		t.Fatalf("%q for net/url is %#v, %v, and Parsed %#v", s, parsed, err, u.Parsed())
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			t.Fatalf("%q holds byte %#x", s, s[i])
		}
	}
}

// rfc3986 are the references of RFC 3986 section 5.4, normal and abnormal.
const rfc3986 = "g:h g ./g g/ /g //g ?y g?y #s g#s g?y#s ;x g;x g;x?y#s . ./ .. ../ ../g ../.. ../../ ../../g " +
	"../../../g ../../../../g /./g /../g g. .g g.. ..g ./../g ./g/. g/./h g/../h g;x=1/./y g;x=1/../y g?y/./x g?y/../x g#s/./x g#s/../x http:g"

func seeds(f *testing.F) {
	for _, s := range []string{"http://example.com/", "https://ü.example:99/?", "http://[::ffff:1.2.3.4]/", "http://0300.1.2.3/", "http://faß.example/", "http://h:00080/"} {
		f.Add("", s)
	}
	for ref := range strings.FieldsSeq(rfc3986) {
		f.Add("http://a/b/c/d;p?q", ref)
	}
	for _, base := range []string{"https://h/a", "https://h:8443/a/b?c", "http://h//a//b", "http://h//", "http://h/a?x", "http://bücher.example/a", "http://10.0.0.1/a"} {
		for _, ref := range []string{
			"//other/x", `\\host\x`, "///other/x", `/\host/x`, `\x`, "https:x", "https:/x", "https:", "HTTPS:?d", "http:x", "http:/x/y", "//h:8443/b", "http://h:8443/b",
			"https://h:443/b", "../c", "..", "e", "", "?", "%2e%2e/c", "./c:d", "a b", " ../c ", "..\n/c", "\t#x", "\n", "//bücher.example/b", "http://10.0.0.1/b",
		} {
			f.Add(base, ref)
		}
	}
	for _, base := range []string{"http://a/b/c/d;p?q", "https://example.com:8443//x//y", "http://[::1]/", ""} {
		for _, ref := range []string{
			"", "#", "g", "../../g", "./a:b", "//h/x", "///h", `\\h\a\..\b`, "?q=ü&x=%zz", "http:g", "https://EXAMPLE.com:443/%7e%2E%2e/",
			"http://%41/", "http://1.2.3/", "http://0x7f.1", "http://[1::2]:80", "http://a..b/", "http://h./", "http://xn--bcher-kva/",
			"mailto:x", "%%341", "%a%62", "a\tb\nc", "http://ex\u00adample.com/", "HTTP:/\\h", "\x00 /a\xff ", "http://u:p@h/", "/^`{|}'", "a%/%41",
		} {
			f.Add(base, ref)
		}
	}
}

// FuzzResolve compares with the library on every input, bytes with strings, and holds the laws.
func FuzzResolve(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, baseText, ref string) {
		base, err := Parse(baseText)
		if err == nil {
			checkURL(t, base)
		}
		u, err := base.Resolve(ref)
		b, bytesErr := base.ResolveBytes([]byte(ref))
		if u != b || (err == nil) != (bytesErr == nil) {
			t.Fatalf("%q + %q: string %q, %v; bytes %q, %v", base, ref, u, err, b, bytesErr)
		}
		if err == nil {
			checkURL(t, u)
		}
		const slow = 1 << 10 // the plain way is quadratic
		if refusedUserinfo(err) || len(ref) > slow || len(baseText) > slow {
			return // our own rules, which the library does not know
		}
		want, wantErr := byLibrary(base, ref)
		if u.String() != want || (err == nil) != (wantErr == nil) {
			t.Fatalf("%q + %q = %q, %v; the library says %q, %v", base, ref, u, err, want, wantErr)
		}
	})
}

// FuzzPortable has two pages of one directory, which must agree on every reference that is portable.
func FuzzPortable(f *testing.F) {
	seeds(f)
	for _, ref := range []string{"ht\ntp:?x", "https:", "https:?x=http://y", "\t?x", " #", "a?x=b:c", "x://y", "\n", "https:/x"} {
		f.Add("https://example.com/a/b", ref)
	}
	f.Fuzz(func(t *testing.T, baseText, ref string) {
		base, err := Parse(baseText)
		if err != nil || !Portable([]byte(ref)) {
			return
		}
		other, err := Parse(base.Dir() + "other?x/y")
		if err != nil { // too long
			return
		}
		if other.Dir() != base.Dir() {
			t.Fatalf("%q is in %q, but %q in %q", base, base.Dir(), other, other.Dir())
		}
		u, err := base.Resolve(ref)
		v, otherErr := other.Resolve(ref)
		if u != v || !errors.Is(otherErr, err) {
			t.Fatalf("%q: %q, %v at %q; %q, %v at %q", ref, u, err, base, v, otherErr, other)
		}
	})
}
