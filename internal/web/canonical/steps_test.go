package canonical

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSteps has every step do its work once.
func TestSteps(t *testing.T) {
	rules, err := NewRules([]string{"tracking", "index"})
	require.NoError(t, err)
	steps, u, err := Steps(" HTTPS:\\\\Bücher.Example.:443/a\\./b/%2e%2e/%7ec/index.html?utm_source=x#top\n", rules)
	require.NoError(t, err)
	require.Equal(t, "https://xn--bcher-kva.example/a/~c/", u.String())
	var got []string
	for _, s := range steps {
		if s.Changed() {
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

// same reports whether escaping would make of walked what the path of u is.
func same(walked []byte, u URL) bool {
	path, _, _ := strings.Cut(u.Path(), "?")
	var out []byte
	for part := range bytes.SplitSeq(walked, []byte("/")) {
		out = append(appendEscaped(out, part, inPath), '/')
	}
	return string(out[:len(out)-1]) == path
}

// FuzzSteps: the steps follow on one another from the text to the URL, and what the path
// was walked to differs from the URL's by escapes alone.
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
