//go:build unix

package redis

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// Whether anything of a job could be asked for, and whether any host has answered, is the same to all its processes,
// whichever of them has found out, and stays so for those that come later.
func TestNotes(t *testing.T) {
	const why = "http://a.test: robots.txt cannot be had"
	unruled := func(why string) func(*Store) { return func(s *Store) { s.Noted(true, false, why) } }
	nothing, answered, visited := func(*Store) {}, unruled(""), func(s *Store) { s.Noted(true, true, "") }
	for name, c := range map[string]struct {
		a, b       func(*Store)
		unvisited  string
		unanswered bool
	}{
		"nothing was noted":    {nothing, nothing, "", true},
		"one has answered":     {answered, nothing, "", false},
		"of one host":          {unruled(why), nothing, why, false},
		"the first reason":     {func(s *Store) { unruled(why)(s); unruled("another")(s) }, unruled("of the other"), why, false},
		"another was visited":  {unruled(why), visited, "", false},
		"it was, before":       {visited, unruled(why), "", false},
		"a reason beyond room": {unruled(strings.Repeat("x", reasonMost-1) + "é"), nothing, strings.Repeat("x", reasonMost-1), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a, b := r.open(), r.open()
			put(t, a, "http://a.test/1", "http://b.test/1")
			flush(t, a)
			visitOne(t, a, c.a)
			visitOne(t, b, c.b)
			for _, s := range []*Store{a, b, r.open()} {
				require.True(t, activate(t, s, 1).Complete)
				require.Equal(t, c.unvisited, s.Unvisited())
				require.Equal(t, c.unanswered, s.Unanswered())
			}
			st := r.status()
			require.Equal(t, c.unvisited, st.Unvisited)
			require.Equal(t, c.unanswered, st.Unanswered)
		})
	}
}

// What was found is noted before the URL of which it was found is done, though what is done waits for nothing.
func TestNotedBeforeDone(t *testing.T) {
	r := newRig(t)
	s := r.open()
	put(t, s, "http://a.test/1")
	flush(t, s)
	activate(t, s, 1)
	_, got := load(t, s, "a.test", 1)
	sent := make(chan string, 64)
	watched(s, func(_ context.Context, commands []rueidis.Completed) {
		for _, c := range commands {
			sent <- c.Commands()[1] // a script or its hash
		}
	})
	visit(s, &got.Items[0])
	s.Noted(true, true, "")
	flush(t, s)
	var order []string
	for range len(sent) {
		what := <-sent
		for _, script := range []*script{scriptNote, scriptDone} {
			if text, sha := script.text(); what == text || what == sha {
				order = append(order, script.name)
			}
		}
	}
	require.Equal(t, []string{"note", "done"}, slices.Compact(order), "whatever was called first")
}

func visitOne(t *testing.T, s *Store, note func(*Store)) {
	t.Helper()
	hosts := names(activate(t, s, 1))
	require.Len(t, hosts, 1)
	_, got := load(t, s, hosts[0], 9)
	note(s)
	visit(s, &got.Items[0])
	flush(t, s)
}
