package canonical

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
)

func TestDir(t *testing.T) {
	require.Empty(t, URL{}.Dir())
	for s, want := range map[string]string{
		"http://h/": "http://h/", "http://h/a": "http://h/", "http://h/a/": "http://h/a/", "https://h:1/a/b?c/d": "https://h:1/a/", "http://h/?a/b": "http://h/",
	} {
		require.Equal(t, want, mustParse(t, s).Dir(), s)
	}
}

func TestPortable(t *testing.T) {
	for _, ref := range []string{"a", "../a?b", "/", "//h", "/?", "a#b", "http://h", " a", "a?b=c", "http:///h"} {
		require.True(t, Portable([]byte(ref)), ref)
	}
	for _, ref := range []string{"", " ", "?", "?a", "\t?a", "#a", "http:", "http:?a", "ht\ntp:?a", "mailto:a", "http:?a=http://h"} {
		require.False(t, Portable([]byte(ref)), ref)
	}
}

// benchRefs are the kinds of link a documentation page has, about as often as it has them.
func benchRefs() [][]byte {
	refs := []string{
		"../library/os.html#os.walk", "#index-3", "functions.html", "../index.html", "https://docs.example.org/3/whatsnew/3.11.html",
		"../reference/datamodel.html#object.__init__", "/3/search.html?q=a&check_keywords=yes", "https://github.com/example/project/issues/1234",
		"collections.abc.html#collections.abc.Mapping", "//cdn.example.net/static/a.css", "./glossary.html", "mailto:docs@example.org",
		"/wiki/%D0%93%D0%BE%D1%80%D0%BE%D0%B4", "https://de.example.org/größe", "stdtypes.html#str", "../genindex.html",
	}
	out := make([][]byte, len(refs))
	for i, r := range refs {
		out[i] = []byte(r)
	}
	return out
}

func BenchmarkResolve(b *testing.B) {
	base := mustParse(b, "https://docs.example.org/3/library/index.html")
	refs := benchRefs()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, _ = base.ResolveBytes(refs[i%len(refs)])
	}
}

// TestNormalization runs the cases of RFC 3986 §6.2, and again with what they came to.
func TestNormalization(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/conformance/rfc3986.txt")
	require.NoError(t, err)
	passed, cases := 0, 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		require.Len(t, fields, 2, line)
		cases++
		u, err := Parse(fields[0])
		again, errAgain := Parse(fields[1])
		if err == nil && errAgain == nil && u.String() == fields[1] && again == u {
			passed++
		} else {
			t.Errorf("%s = %v (%v), want %s, which is %v (%v)", fields[0], u, err, fields[1], again, errAgain)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "rfc3986", conformance.Result{Cases: cases, Passed: passed})
	}
}

// TestSteps has every step do its work once.
func TestSteps(t *testing.T) {
	rules, err := NewRules([]string{"tracking", "index"})
	require.NoError(t, err)
	steps, u, err := Steps(" HTTPS:\\\\Bücher.Example.:443/a\\./b/%2e%2e/%7ec/index.html?utm_source=x#top\n", rules)
	require.NoError(t, err)
	require.Equal(t, "https://xn--bcher-kva.example/a/~c/", u.String())
	var got []string
	for _, s := range steps {
		if s.From != s.To {
			got = append(got, s.Rule+": "+s.To)
		}
	}
	require.Equal(t, []string{
		"white space: HTTPS:\\\\Bücher.Example.:443/a\\./b/%2e%2e/%7ec/index.html?utm_source=x#top",
		"fragment: HTTPS:\\\\Bücher.Example.:443/a\\./b/%2e%2e/%7ec/index.html?utm_source=x",
		"scheme: https://Bücher.Example.:443/a\\./b/%2e%2e/%7ec/index.html?utm_source=x",
		"host: https://xn--bcher-kva.example:443/a\\./b/%2e%2e/%7ec/index.html?utm_source=x",
		"port: https://xn--bcher-kva.example/a\\./b/%2e%2e/%7ec/index.html?utm_source=x",
		"path: https://xn--bcher-kva.example/a/./b/%2e%2e/%7ec/index.html?utm_source=x",
		"dot segments: https://xn--bcher-kva.example/a/%7ec/index.html?utm_source=x",
		"escapes: https://xn--bcher-kva.example/a/~c/index.html?utm_source=x",
		"rule tracking: https://xn--bcher-kva.example/a/~c/index.html",
		"rule index: https://xn--bcher-kva.example/a/~c/",
	}, got)
}

func TestStepsOfNoURL(t *testing.T) {
	steps, _, err := Steps(" mailto:a@b#c ", nil)
	require.ErrorIs(t, err, ErrScheme)
	require.Len(t, steps, 2)
	require.Equal(t, "mailto:a@b", steps[1].To)
}

func same(walked []byte, u URL) bool {
	path, _, _ := strings.Cut(u.Path(), "?")
	var out []byte
	for part := range bytes.SplitSeq(walked, []byte("/")) {
		out = append(appendEscaped(out, part, inPath), '/')
	}
	return string(out[:len(out)-1]) == path
}

// FuzzSteps: the steps follow on one another from the text to the URL, and what the path was walked to differs from
// the URL's by escapes alone.
func FuzzSteps(f *testing.F) {
	for _, s := range []string{
		"http:a", "HTTP:///h:80\\..\\%2E/b/..?x", "https://h:?#", "http://[::1]:443/a//../b", "http://0x7f.1:080/%zz/..", "http://h/%/%41/.%2e", "http://h\t/\n.\r/",
	} {
		f.Add(s)
	}
	rules := mustRules(f, RuleNames(), []string{"ref"})
	f.Fuzz(func(t *testing.T, s string) {
		steps, u, err := Steps(s, rules)
		parsed, parseErr := Parse(s)
		if (err == nil) != (parseErr == nil) {
			t.Fatalf("%q: %v, but Parse says %v", s, err, parseErr)
		}
		now := s
		for _, step := range steps {
			if step.From != now {
				t.Fatalf("%q: step %s begins with %q, not %q", s, step.Rule, step.From, now)
			}
			now = step.To
			if step.Rule != "dot segments" {
				continue
			}
			if path, _, _ := strings.Cut(now[parsed.path:], "?"); !same([]byte(path), parsed) {
				t.Fatalf("%q walks to %q, but is %q", s, now, parsed)
			}
		}
		if err == nil && (now != u.s || rules.Apply(parsed) != u) {
			t.Fatalf("%q ends at %q, but is %q, with the rules %q", s, now, u, rules.Apply(parsed))
		}
	})
}
