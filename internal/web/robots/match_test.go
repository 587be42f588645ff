package robots_test

import (
	"fmt"
	"iter"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func cases(t *testing.T, name string) iter.Seq[string] {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return strings.Lines(string(text))
}

func scan(t *testing.T, line string, fields ...any) {
	t.Helper()
	form := "%q %q %t"
	if _, ok := fields[2].(*string); ok {
		form = "%q %q %q"
	}
	_, err := fmt.Sscanf(line, form, fields...)
	require.NoError(t, err, line)
}

// TestSpecificity pits rules against each other: section 2.2.2 and section 5.2.
func TestSpecificity(t *testing.T) {
	for line := range cases(t, "specificity.txt") {
		var rules, path string
		var allowed bool
		scan(t, line, &rules, &path, &allowed)
		text := strings.NewReplacer("A ", "Allow: ", "D ", "Disallow: ", " | ", "\n").Replace(rules)
		v := rulesOf("User-agent: *\n" + text).Check(path)
		require.Equal(t, allowed, v.Allowed, "%s, asked for %s: %s", rules, path, v.Reason)
	}
}

// TestMatch asks whether a lone Disallow matches a path.
func TestMatch(t *testing.T) {
	for line := range cases(t, "match.txt") {
		var pattern, match, other string // paths with blanks between that do and do not match
		scan(t, line, &pattern, &match, &other)
		r := rulesOf("User-agent: *\nDisallow: " + pattern)
		for path := range strings.FieldsSeq(match) {
			require.False(t, r.Check(path).Allowed, "%s should match %s", pattern, path)
		}
		for path := range strings.FieldsSeq(other) {
			require.True(t, r.Check(path).Allowed, "%s should not match %s", pattern, path)
		}
	}
}

// TestPercent is the table of section 2.2.2 and its relatives: each pair of spellings is one resource or is two,
// whichever side the rule is on.
func TestPercent(t *testing.T) {
	for line := range cases(t, "percent.txt") {
		var a, b string
		var same bool
		scan(t, line, &a, &b, &same)
		for _, p := range [][2]string{{a, b}, {b, a}} {
			r := rulesOf("User-agent: *\nDisallow: " + p[0] + "$")
			require.Equal(t, same, !r.Check(p[1]).Allowed, "rule %s, path %s", p[0], p[1])
		}
	}
}

func TestCheckSpellings(t *testing.T) {
	r := rulesOf("User-agent: *\nDisallow: /x\nDisallow: /?q\nAllow: /y")
	for path, allowed := range map[string]bool{"": true, "x": false, "?q": false, "/y#/x": true, "/x#": false, "#x": true} {
		require.Equal(t, allowed, r.Check(path).Allowed, path)
	}
}

// slowMatch is the meaning of a pattern, as a regular expression; both sides are spelled such that no
// percent-encoding is at play.
func slowMatch(pattern, path string) bool {
	body, anchored := strings.CutSuffix(pattern, "$")
	expr := "^" + strings.ReplaceAll(regexp.QuoteMeta(body), `\*`, ".*")
	if anchored {
		expr += "$"
	}
	return regexp.MustCompile(expr).MatchString(path)
}

// FuzzMatch compares with slowMatch on an alphabet small enough for collisions.
func FuzzMatch(f *testing.F) {
	f.Add("/a*b$", "/axxb")
	f.Add("*a*aa*", "/aaaa")
	f.Add("/*$", "/")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		spell := func(s, letters string) string {
			out := make([]byte, 0, len(s))
			for i := range min(len(s), 60) {
				out = append(out, letters[int(s[i])%len(letters)])
			}
			return "/" + string(out)
		}
		pattern, path = spell(pattern, "a/b**$"), spell(path, "ab/")
		body, dollar := strings.CutSuffix(pattern, "$")
		if strings.Contains(body, "$") {
			body = strings.ReplaceAll(body, "$", "b")
		}
		if pattern = body; dollar {
			pattern += "$"
		}
		got := !rulesOf("User-agent: *\nDisallow: " + pattern).Check(path).Allowed
		if want := slowMatch(pattern, path); got != want {
			t.Errorf("pattern %s matches %s = %v, want %v", pattern, path, got, want)
		}
	})
}
