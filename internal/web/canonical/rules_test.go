package canonical

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustRules(t testing.TB, words, drop []string) *Rules {
	t.Helper()
	for _, name := range drop {
		words = append(words, "drop:"+name)
	}
	r, err := NewRules(words)
	require.NoError(t, err)
	return r
}

// TestRules has one rule at a time. An empty want is "as it was".
func TestRules(t *testing.T) {
	for _, c := range []struct{ rule, in, want string }{
		{"sessions", "https://h/a;jsessionid=8F3?x=1", "https://h/a?x=1"},
		{"sessions", "https://h/a;JSESSIONID=8F3;v=2/b;sid=1", "https://h/a;v=2/b"},
		{"sessions", "https://h/..;jsessionid=1/b", ""}, // two dots would lead elsewhere
		{"sessions", "https://h/;jsessionid=1", "https://h/"},
		{"sessions", "https://h/(S(lit3py55t21z5v55vlm25s55))/page.aspx", "https://h/page.aspx"},
		{"sessions", "https://h/app/(A(x1)S(y2))/p", "https://h/app/p"},
		{"sessions", "https://h/(S(x));jsessionid=1/p", "https://h/p"},
		{"sessions", "https://h/wiki/(S(x))", ""}, // nothing behind it: a page of that name
		{"sessions", "https://h/(S())/p", ""},
		{"sessions", "https://h/(disambiguation)/p", ""},
		{"sessions", "https://h/p?PHPSESSID=1&q=2", "https://h/p?q=2"},
		{"sessions", "https://h/p?q=2&ASPSESSIONIDQQ=X", "https://h/p?q=2"},
		{"sessions", "https://h/p?sid=0123456789abcdef", "https://h/p"},
		{"sessions", "https://h/p?sid=12", ""}, // a number of something
		{"sessions", "https://h/p?s=crawling-politely-at-last", ""},
		{"sessions", "https://h/p?s=1234567890123456", ""},
		{"slashes", "https://h//a///b//?x=//", "https://h/a/b/?x=//"},
		{"slashes", "https://h/", ""},
		{"index", "https://h/a/index.html", "https://h/a/"},
		{"index", "https://h/Default.aspx", ""}, // some servers tell case apart
		{"index", "https://h/default.aspx", "https://h/"},
		{"index", "https://h/index.php?id=1", ""},
		{"index", "https://h/?u=/index.html", ""},
		{"index", "https://h/myindex.html", ""},
		{"tracking", "https://h/p?utm_source=a&id=7&UTM_medium=b&gclid=x", "https://h/p?id=7"},
		{"tracking", "https://h/p?fbclid=x", "https://h/p"},
		{"tracking", "https://h/p?utm=1&reference=2", ""},
		{"tracking", "https://h/utm_source=a", ""},
		{"tracking", "https://h/p?utm%5Fsource=a", "https://h/p"}, // "_" is unreserved
		{"sort", "https://h/p?b=2&a=1&b=1", "https://h/p?a=1&b=2&b=1"},
		{"sort", "https://h/p?b&a=&&=x", "https://h/p?&=x&a=&b"},
		{"empty-query", "https://h/p?", "https://h/p"},
		{"empty-query", "https://h/p?=", ""},
	} {
		u, err := Parse(c.in)
		require.NoError(t, err)
		want := c.want
		if want == "" {
			want = u.String()
		}
		if got := mustRules(t, []string{c.rule}, nil).Apply(u).String(); got != want {
			t.Errorf("%s of %s = %s, want %s", c.rule, c.in, got, want)
		}
	}
}

func TestDrop(t *testing.T) {
	r := mustRules(t, nil, []string{"ref", "Camp_*_id"})
	u, err := Parse("https://h/p?REF=1&camp_9_id=2&camp_9=3&refs=4")
	require.NoError(t, err)
	require.Equal(t, "https://h/p?camp_9=3&refs=4", r.Apply(u).String())
}

// TestRulesTogether has the effects of one rule make work for the next.
func TestRulesTogether(t *testing.T) {
	r := mustRules(t, RuleNames(), []string{"ref"})
	u, err := Parse("https://h/a//(S(x1))//index.html;jsessionid=1?z=1&utm_source=b&ref=c&a=2")
	require.NoError(t, err)
	require.Equal(t, "https://h/a/index.html?a=2&z=1", r.Apply(u).String())
	u, err = Parse("https://h/a//(S(x1))//index.html;jsessionid=1?utm_source=b&ref=c")
	require.NoError(t, err)
	require.Equal(t, "https://h/a/", r.Apply(u).String())
}

func TestNoRules(t *testing.T) {
	r, err := NewRules(nil)
	require.NoError(t, err)
	require.Nil(t, r)
	u, err := Parse("https://h/index.html?utm_source=b")
	require.NoError(t, err)
	require.Equal(t, u, r.Apply(u))
	require.Equal(t, URL{}, mustRules(t, RuleNames(), nil).Apply(URL{}))
}

func TestRuleMistakes(t *testing.T) {
	for words, want := range map[string]string{
		"sorted":         `"sorted" is no rule: use sessions, slashes, tracking, empty-query, index, sort, drop:NAME`,
		"drop":           `"drop" is no rule`,
		"tracking,index": `"tracking,index" is not one rule: give each by itself, of sessions, slashes, tracking, empty-query, index, sort`,
		"drop:**":        "would drop every parameter",
		"drop:":          "would drop every parameter",
		"drop:a=b":       `"a=b" is no name of a parameter`,
	} {
		_, err := NewRules([]string{words})
		require.ErrorContains(t, err, want)
	}
}

// TestRulesCostNothing: a URL that no rule changes is not copied.
func TestRulesCostNothing(t *testing.T) {
	r := mustRules(t, RuleNames(), []string{"ref"})
	u, err := Parse("https://example.com/docs/page/?a=1&b=2")
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Apply(u) }))
}

// FuzzRules holds the laws for every rule alone and for all: what comes out is canonical, of the same origin, no
// longer, and final.
func FuzzRules(f *testing.F) {
	for _, s := range []string{
		"https://h/a//(S(x1))//index.html;jsessionid=1?z=1&utm_source=b&ref=c&a=2", "http://h/..;sid=1/x", "http://h/?&&=&?",
		"http://1.2.3.4:8080//index.html//default.asp", "https://h/;sid=;sid=/.;jsessionid=", "http://[::1]/(S(a)S(b))/(F(c))/?s=0123456789abcdef",
	} {
		f.Add(s)
	}
	sets := []*Rules{mustRules(f, RuleNames(), []string{"a*b", "ref"})}
	for _, name := range RuleNames() {
		sets = append(sets, mustRules(f, []string{name}, nil))
	}
	f.Add("https://h/index.html?&utm_x=1&ref=2&PHPSESSID=3")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := Parse(s)
		if err != nil {
			return
		}
		for _, r := range sets {
			v := r.Apply(u)
			checkURL(t, v)
			if again := r.Apply(v); again != v {
				t.Fatalf("%v: %q becomes %q, and then %q", r.on, u, v, again)
			}
			if v.Origin() != u.Origin() || len(v.s) > len(u.s) || strings.Contains(v.Host(), "//") {
				t.Fatalf("%v: %q becomes %q", r.on, u, v)
			}
		}
	})
}
