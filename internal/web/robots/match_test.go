package robots_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExampleOfRFC9309 is section 5.1, simple and with groups.
func TestExampleOfRFC9309(t *testing.T) {
	file := `User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: treadlight
Disallow: /example/page.html

User-Agent: quxbot
`
	for _, tc := range []struct {
		agent, path string
		allowed     bool
	}{
		{"anybot", "/", true},
		{"anybot", "/a.gif", false},
		{"anybot", "/a.gif?x", true},
		{"anybot", "/publications/a.gif", true}, // "/publications/" has more octets than "*.gif$"
		{"anybot", "/example/page.html", false},
		{"anybot", "/example", true},
		{"foobot", "/", false},
		{"foobot", "/example/page.html", true},
		{"foobot", "/example/page.htm", false},
		{"foobot", "/example/allowed.gif", true},
		{"barbot", "/example/page.html", false},
		{"barbot", "/a.gif", true},
		{agent, "/example/page.html", false},
		{"quxbot", "/a.gif", true},
		{"quxbot", "/example/page.html", true},
	} {
		v := parse(file).Agent(tc.agent).Check(tc.path)
		require.Equal(t, tc.allowed, v.Allowed, "%s %s: %s", tc.agent, tc.path, v.Reason)
	}
}

// TestSpecificity pits rules against each other: section 2.2.2 and section 5.2.
func TestSpecificity(t *testing.T) {
	for _, tc := range []struct {
		rules, path string
		allowed     bool
	}{
		{"A /example/page/ | D /example/page/disallowed.gif", "/example/page/disallowed.gif", false},
		{"A /example/page/ | D /example/page/disallowed.gif", "/example/page/x", true},
		{"D /x/ | A /", "/x/page.html", false},
		{"A /x | D /x", "/x", true},
		{"D /x | A /x", "/x", true},
		{"D /x | A /x/", "/x", false},
		{"D /x | A /x/", "/x/", true},
		{"A /p | D /", "/page", true},
		{"A /folder | D /folder", "/folder/page", true},
		{"A /page | D /*.htm", "/page.htm", false},
		{"A /page | D /*.ph", "/page.php5", true},
		{"A /$ | D /", "/", true},
		{"A /$ | D /", "/page.htm", false},
		{"D /a* | A /a", "/ab", false},    // the star counts
		{"D /a$ | A /a", "/a", false},     // and the dollar
		{"D /%61a | A /aa", "/aa", true},  // but not a needless escape
		{"D /ü | A /??????", "/ü", false}, // an escape that is needed does, wherever it is made
		{"D /ü | A /%c3%bc", "/ü", true},
		{"D / | A /robots.txt", "/robots.txt", true},
		{"D /robots.txt", "/robots.txt", true}, // section 2.2.2: implicitly allowed
		{"D /robots.txt", "/robots.txt.bak", false},
		{"D /", "/robots.txt?x", false},
		{"D /", "/robots%2etxt", true},
	} {
		rules := strings.NewReplacer("A ", "Allow: ", "D ", "Disallow: ", " | ", "\n").Replace(tc.rules)
		v := rulesOf("User-agent: *\n" + rules).Check(tc.path)
		require.Equal(t, tc.allowed, v.Allowed, "%s, asked for %s: %s", tc.rules, tc.path, v.Reason)
	}
}

// TestMatch asks whether a lone Disallow matches a path.
func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern      string
		match, other string // blank-separated paths that do and do not match
	}{
		{"/", "/ /x /x/y?z", ""},
		{"/fish", "/fish /fish.html /fish/salmon /fishheads /fish.php?id=x", "/Fish /catfish /?id=fish /desert/fish"},
		{"/fish*", "/fish /fish.html /fishheads/y", "/Fish /catfish"},
		{"/fish/", "/fish/ /fish/?id=x /fish/salmon", "/fish /fish.html /animals/fish/"},
		{"/*.php", "/index.php /a/b.php?c /a.php.x /a/.php/", "/ /windows.PHP /php"},
		{"/*.php$", "/a.php /a/b.php", "/a.php?x /a.php/ /a.php5"},
		{"/fish*.php", "/fish.php /fishheads/catfish.php?x", "/Fish.PHP /fish"},
		{"*/x", "/x /a/x /a/b/x/c", "/ax /"},
		{"*", "/ /x", ""},
		{"**", "/ /x", ""},
		{"*$", "/ /x", ""},
		{"/a*$", "/a /ab", "/b"},
		{"/$", "/", "/x /?"},
		{"$", "", "/ /$"},
		{"$$", "", "/ /$"},
		{"/a*a", "/aa /aba /aaaa", "/a /ab"},
		{"/a*a$", "/aa /aba", "/a /aab"},
		{"/*a*b*c$", "/abc /xaxbxc /abcc /aabbcc", "/ab /acb /abcx"},
		{"/a$b", "/a$b /a$bc /a%24b", "/a /ab"},
		{"/a%24", "/a$ /a$b /a%24", "/a"},
		{"/a%2A", "/a* /a*b /a%2a", "/a /ab"},
		{"/a\\*", "/a\\x /a%5C", "/a /ax"},
		{"/?", "/? /?x", "/ /x?"},
		{"/a?b", "/a?b /a?bc", "/ab /axb /a"},
		{"x", "", "/x x"},
		{"http://a.test/x", "", "/x"},
		{"/a b", "/a%20b", "/a /a+b"},
		{"/a.b", "/a.b", "/axb"},
		{"/(a|b)[c]+", "/(a|b)[c]+ /(a%7Cb)%5Bc%5D+", "/ac"},
	} {
		r := rulesOf("User-agent: *\nDisallow: " + tc.pattern)
		for path := range strings.FieldsSeq(tc.match) {
			require.False(t, r.Check(path).Allowed, "%s should match %s", tc.pattern, path)
		}
		for path := range strings.FieldsSeq(tc.other) {
			require.True(t, r.Check(path).Allowed, "%s should not match %s", tc.pattern, path)
		}
	}
}

// TestPercent is the table of section 2.2.2 and its relatives: each pair of spellings is one resource or is two,
// whichever side the rule is on.
func TestPercent(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"/foo/bar?baz=quz", "/foo/bar?baz=quz", true},
		{"/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", true},
		{"/foo/bar/\u30c4", "/foo/bar/%E3%83%84", true},
		{"/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84", true},
		{"/foo/bar/%62%61%7A", "/foo/bar/baz", true},
		{"/%7Ejoe/", "/~joe/", true},
		{"/%2d%2E%5f", "/-._", true},
		{"/a%3Ab%40c", "/a:b@c", true},
		{"/a%3cb", "/a%3Cb", true},
		{"/a<b", "/a%3Cb", true},
		{"/100%", "/100%25", true},
		{"/%zz", "/%25zz", true},
		{"/%4", "/%254", true},
		{"/a%2fb", "/a/b", false},
		{"/a%3fb", "/a?b", false},
		{"/a%26b", "/a&b", false},
		{"/?a%26b", "/?a&b", false},
		{"/%2541", "/A", false},
		{"/%2541", "/%41", false},
		{"/\xff", "/%FF", true},
		{"/%00", "/%0", false},
	} {
		for _, p := range [][2]string{{tc.a, tc.b}, {tc.b, tc.a}} {
			r := rulesOf("User-agent: *\nDisallow: " + p[0] + "$")
			require.Equal(t, tc.same, !r.Check(p[1]).Allowed, "rule %s, path %s", p[0], p[1])
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

func BenchmarkCheck(b *testing.B) {
	var file strings.Builder
	file.WriteString("User-agent: *\n")
	for i := range 100 {
		file.WriteString("Disallow: /section" + strings.Repeat("x", i%17) + "/*/private" + strings.Repeat("y", i%5) + "$\n")
	}
	r := rulesOf(file.String())
	b.ReportAllocs()
	for b.Loop() {
		if !r.Check("/section/articles/2026/some-long-title-of-an-article?page=2").Allowed {
			b.Fatal("refused")
		}
	}
}
