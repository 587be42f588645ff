package admissiontest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
			if got := s.admits(key, 2, p); got != 2 {
				s.Errorf("%s: key %d, %q, was granted %d, want 2: another key counts for it", p.Name, i, key, got)
			}
		}
		for _, key := range keys {
			if s.take(key, 1, p).Allowed {
				s.Errorf("%s: key %q was granted a third time", p.Name, key)
			}
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
		if got := s.admits(tc.key, 1, tc.plan); got != 1 {
			s.Errorf("key %q of plan %s was granted %d, want 1", tc.key, tc.plan.Name, got)
		}
	}
}

func (s *suite) remove() {
	p, q := Bucket("p", 1, 1e-3), Fixed("q", 1, 24*time.Hour)
	for _, key := range []string{"ann", "bob"} {
		s.take(key, 1, p, q)
	}
	s.removed("ann", p)
	if !s.take("ann", 1, p).Allowed {
		s.Error("what was removed still counts")
	}
	for _, tc := range []struct {
		key  string
		plan admission.Plan
	}{{"ann", q}, {"bob", p}, {"bob", q}} {
		if s.take(tc.key, 1, tc.plan).Allowed {
			s.Errorf("%s of %s went with what was removed", tc.plan.Name, tc.key)
		}
	}
	s.removed("bob", p, q)
	if !s.take("bob", 1, p, q).Allowed {
		s.Error("what was removed of two plans still counts")
	}
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
	if err := s.repo.Keys(s.Context(), []admission.Plan{p}, func(key string) bool { got[key] = true; return true }); err != nil {
		s.Fatalf("Keys = %v", err)
	}
	delete(got, "other") // a repository may yield it too
	if !maps.Equal(got, want) {
		s.Errorf("Keys = %v, want %v", got, want)
	}
	n := 0
	if err := s.repo.Keys(s.Context(), []admission.Plan{p}, func(string) bool { n++; return n < 2 }); err != nil || n != 2 {
		s.Errorf("Keys went on to the %dth after false, %v", n, err)
	}
}

func (s *suite) removeWhere() {
	p := Fixed("p", 1, time.Hour)
	rules, err := admission.NewRuleSet(admission.RuleSetConfig{}, []admission.Plan{p}, []admission.Rule{}, nil)
	if err != nil {
		s.Fatal(err)
	}
	a, err := admission.New(admission.Config{Repository: s.repo, Rules: rules, Deadline: time.Minute})
	if err != nil {
		s.Fatal(err)
	}
	n := s.opts.Keys - 1
	for i := range n {
		s.take(fmt.Sprintf("user:%d", i), 1, p)
	}
	s.take("host", 1, p)
	users := func(key string) bool { return strings.HasPrefix(key, "user:") }
	if removed, err := a.RemoveWhere(s.Context(), users); removed != n || err != nil {
		s.Errorf("RemoveWhere = %d, %v, want %d", removed, err, n)
	}
	if !s.take("user:7", 1, p).Allowed || s.take("host", 1, p).Allowed {
		s.Error("want user:7 to begin anew, and host not")
	}
	if removed, err := a.RemoveWhere(s.Context(), users); removed != 1 || err != nil {
		s.Errorf("RemoveWhere = %d, %v, want 1: that came after", removed, err)
	}
}

func (s *suite) removed(key string, plans ...admission.Plan) {
	s.Helper()
	if err := s.repo.Remove(s.Context(), key, plans); err != nil {
		s.Errorf("Remove(%q, %v) = %v", key, names(plans), err)
	}
}

func (s *suite) together(plansOf func(i int) []admission.Plan) (granted int) {
	var wg sync.WaitGroup
	var allowed, failed atomic.Int64
	gate := make(chan struct{})
	for i := range s.opts.Goroutines {
		wg.Go(func() {
			plans := plansOf(i)
			<-gate
			r, err := s.repo.Take(s.Context(), "key", plans, 1)
			switch {
			case err != nil:
				failed.Add(1)
				s.Errorf("Take among %d at once = %v", s.opts.Goroutines, err)
			case r.Allowed:
				allowed.Add(1)
			}
		})
	}
	close(gate)
	wg.Wait()
	if failed.Load() > 0 {
		s.FailNow()
	}
	return int(allowed.Load())
}

func (s *suite) oneAtOnce() {
	for _, p := range []admission.Plan{Bucket("b", 100, 1), Fixed("f", 100, 24*time.Hour), Sliding("s", 100, 24*time.Hour)} {
		if got := s.together(func(int) []admission.Plan { return []admission.Plan{p} }); got != 100 {
			s.Errorf("%s: %d of %d at once were granted, want 100", p.Name, got, s.opts.Goroutines)
		}
	}
}

// threeAtOnce names three plans in all orders: a repository that locks or writes them one by one would deadlock or
// count wrongly.
func (s *suite) threeAtOnce() {
	p := []admission.Plan{Bucket("p", 130, 1e-3), Sliding("q", 100, 24*time.Hour), Fixed("r", 170, 24*time.Hour)}
	orders := [][]admission.Plan{{p[0], p[1], p[2]}, {p[2], p[1], p[0]}, {p[1], p[2], p[0]}, {p[0], p[2], p[1]}}
	if got := s.together(func(i int) []admission.Plan { return orders[i%len(orders)] }); got != 100 {
		s.Errorf("%d of %d at once were granted, want 100", got, s.opts.Goroutines)
	}
	for i, left := range []int64{30, 0, 70} {
		if r := s.take("key", 0, p[i]); r.Remaining != left {
			s.Errorf("%s has %d left, want %d", p[i].Name, r.Remaining, left)
		}
	}
}

func (s *suite) closing() {
	p := Bucket("b", 1, 1)
	s.take("key", 1, p)
	for range 2 {
		if err := s.repo.Close(); err != nil {
			s.Fatalf("Close = %v", err)
		}
	}
	if r, err := s.repo.Take(s.Context(), "key", []admission.Plan{p}, 1); !errors.Is(err, admission.ErrClosed) {
		s.Errorf("Take after Close = %+v, %v, want ErrClosed", r, err)
	}
	if err := s.repo.Remove(s.Context(), "key", []admission.Plan{p}); !errors.Is(err, admission.ErrClosed) {
		s.Errorf("Remove after Close = %v, want ErrClosed", err)
	}
}
