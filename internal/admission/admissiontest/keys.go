package admissiontest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
)

// hostileKeys returns keys such as attackers put into headers, or that stores could interpret: hash tags, separators,
// wildcards, quotes, ends of strings and lines, broken UTF-8, and keys that become equal if case is folded or text
// trimmed or normalized.
func hostileKeys() []string {
	return []string{
		"", " ", "  ", "a", "A", "a ", " a", "a\x00", "a\x00b", "\x00", "a\n", "a\r\nSET x 1", "a\tb",
		"{a}", "{a", "a}", "{}", "{}a", "a{b}c", "}a{", "{{a}}", "%7Ba%7D", "\\{a\\}", "a:b", "a:b:c", ":a", "a:",
		"rate_limiter:b:{a}", "b:{a}", "a*", "a?", "[a]", "*", "'a'", `"a"`, "a'; DROP TABLE rate_limit_entries; --",
		"a%", "a_", "_", "é", "e\u0301", "\xff", "\xfe", "a\xff", "\ufeffa", "ａ", "1", "01", "1.0", "+1", "1e0", "NULL", "nil",
		"true", strings.Repeat("k", 300), strings.Repeat("k", 301), "../a", "a/b", "a\\b", "a|b", "a,b", "0x61",
	}
}

// keysApart uses up the plan of each key: the other keys must not be affected.
func (s *suite) keysApart() {
	keys := hostileKeys()
	for _, p := range []admission.Plan{Bucket("b", 2, 1e-3), Sliding("s", 2, time.Hour)} {
		for i, key := range keys {
			require.Equal(s, 2, s.admits(key, 2, p), "%s: another key counts for key %d, %q", p.Name, i, key)
		}
		for _, key := range keys {
			require.False(s, s.take(key, 1, p).Allowed, "%s: key %q a third time", p.Name, key)
		}
	}
}

func (s *suite) plansApart() {
	a, ab, ba := Bucket("a", 1, 1e-3), Bucket("a.b", 1, 1e-3), Bucket("b.a", 1, 1e-3)
	for _, tc := range []struct {
		key  string
		plan admission.Plan
	}{
		{"b.c", a}, {"c", ab}, {"b:c", a}, {".b.c", a}, {"a", ba}, {"a.b", a}, {"a", ab}, {"", ab}, {"b", a}, {"{b}", a}, {"", a},
	} {
		require.Equal(s, 1, s.admits(tc.key, 1, tc.plan), "key %q of plan %s", tc.key, tc.plan.Name)
	}
}

func (s *suite) remove() {
	p, q := Bucket("p", 1, 1e-3), Fixed("q", 1, 24*time.Hour)
	for _, key := range []string{"ann", "bob"} {
		s.take(key, 1, p, q)
	}
	s.removed("ann", p)
	require.True(s, s.take("ann", 1, p).Allowed, "what was removed still counts")
	require.False(s, s.take("ann", 1, q).Allowed, "it went with what was removed")
	require.False(s, s.take("bob", 1, p).Allowed, "it went with what was removed")
	require.False(s, s.take("bob", 1, q).Allowed, "it went with what was removed")
	s.removed("bob", p, q)
	require.True(s, s.take("bob", 1, p, q).Allowed, "what was removed of two plans still counts")
	s.removed("nobody", p, q)
	s.removed("bob")
}

// keys checks that Keys yields the keys that have used something of the plans, whatever characters they contain.
func (s *suite) keys() {
	p, q := Bucket("p", 1, 1e-6), Fixed("q", 1, time.Hour)
	want := map[string]bool{"": true, "ann": true, "a:b": true, "{a}%7B": true, "%": true}
	for key := range want {
		s.take(key, 1, p)
	}
	s.take("looks", 0, p)
	s.take("other", 1, q)
	got := map[string]bool{}
	require.NoError(s, s.repo.Keys(s.Context(), []admission.Plan{p}, func(key string) bool { got[key] = true; return true }))
	delete(got, "other") // a repository may yield it too
	require.Equal(s, want, got)
	n := 0
	require.NoError(s, s.repo.Keys(s.Context(), []admission.Plan{p}, func(string) bool { n++; return n < 2 }))
	require.Equal(s, 2, n, "it goes on after false")
}

func (s *suite) removeWhere() {
	p := Fixed("p", 1, time.Hour)
	rules, err := admission.NewRuleSet(admission.RuleSetConfig{}, []admission.Plan{p}, []admission.Rule{}, nil)
	require.NoError(s, err)
	a, err := admission.New(admission.Config{Repository: s.repo, Rules: rules, Deadline: time.Minute})
	require.NoError(s, err)
	n := s.opts.Keys - 1
	for i := range n {
		s.take(fmt.Sprintf("user:%d", i), 1, p)
	}
	s.take("host", 1, p)
	users := func(want int) {
		removed, err := a.RemoveWhere(s.Context(), func(key string) bool { return strings.HasPrefix(key, "user:") })
		require.NoError(s, err)
		require.Equal(s, want, removed)
	}
	users(n)
	require.True(s, s.take("user:7", 1, p).Allowed)
	require.False(s, s.take("host", 1, p).Allowed)
	users(1) // which came after
}

func (s *suite) removed(key string, plans ...admission.Plan) {
	s.Helper()
	require.NoError(s, s.repo.Remove(s.Context(), key, plans))
}

func (s *suite) together(plansOf func(i int) []admission.Plan) (granted int) {
	var wg sync.WaitGroup
	var allowed atomic.Int64
	gate := make(chan struct{})
	for i := range s.opts.Goroutines {
		wg.Go(func() {
			plans := plansOf(i)
			<-gate
			if Take(s, s.repo, "key", 1, plans...).Allowed {
				allowed.Add(1)
			}
		})
	}
	close(gate)
	wg.Wait()
	return int(allowed.Load())
}

func (s *suite) oneAtOnce() {
	for _, p := range []admission.Plan{Bucket("b", 100, 1), Fixed("f", 100, 24*time.Hour), Sliding("s", 100, 24*time.Hour)} {
		require.Equal(s, 100, s.together(func(int) []admission.Plan { return []admission.Plan{p} }), p.Name)
	}
}

// threeAtOnce names three plans in all orders: a repository that locks or writes them one by one would deadlock or
// count wrongly.
func (s *suite) threeAtOnce() {
	p := []admission.Plan{Bucket("p", 130, 1e-3), Sliding("q", 100, 24*time.Hour), Fixed("r", 170, 24*time.Hour)}
	orders := [][]admission.Plan{{p[0], p[1], p[2]}, {p[2], p[1], p[0]}, {p[1], p[2], p[0]}, {p[0], p[2], p[1]}}
	require.Equal(s, 100, s.together(func(i int) []admission.Plan { return orders[i%len(orders)] }))
	for i, left := range []int64{30, 0, 70} {
		require.Equal(s, left, s.take("key", 0, p[i]).Remaining, p[i].Name)
	}
}

func (s *suite) closing() {
	p := Bucket("b", 1, 1)
	s.take("key", 1, p)
	require.NoError(s, s.repo.Close())
	require.NoError(s, s.repo.Close())
	_, err := s.repo.Take(s.Context(), "key", []admission.Plan{p}, 1)
	require.ErrorIs(s, err, admission.ErrClosed)
	require.ErrorIs(s, s.repo.Remove(s.Context(), "key", []admission.Plan{p}), admission.ErrClosed)
}
