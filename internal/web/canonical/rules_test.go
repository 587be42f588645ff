package canonical

import (
	"os"
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

// TestRules has one rule at a time, by the cases in testdata/rules.txt.
func TestRules(t *testing.T) {
	text, err := os.ReadFile("testdata/rules.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		c := strings.Fields(line)
		if c[0] == "#" {
			continue
		}
		u, err := Parse(c[1])
		require.NoError(t, err)
		want := c[2]
		if want == "=" {
			want = u.String()
		}
		if got := mustRules(t, c[:1], nil).Apply(u).String(); got != want {
			t.Errorf("%s of %s = %s, want %s", c[0], c[1], got, want)
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
