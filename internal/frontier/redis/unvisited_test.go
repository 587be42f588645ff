package redis

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
)

// Whether anything of a job could be asked for is the same to all its processes, whichever of
// them has found out, and stays so for those that come later.
func TestUnvisited(t *testing.T) {
	const why = "http://a.test: robots.txt cannot be had"
	for name, c := range map[string]struct {
		a, b func(*Store)
		want string
	}{
		"nothing was noted":    {func(*Store) {}, func(*Store) {}, ""},
		"of one host":          {func(s *Store) { s.Noted(true, false, why) }, func(*Store) {}, why},
		"the first reason":     {func(s *Store) { s.Noted(true, false, why); s.Noted(true, false, "another") }, func(s *Store) { s.Noted(true, false, "of the other") }, why},
		"another was visited":  {func(s *Store) { s.Noted(true, false, why) }, func(s *Store) { s.Noted(true, true, "") }, ""},
		"it was, before":       {func(s *Store) { s.Noted(true, true, "") }, func(s *Store) { s.Noted(true, false, why) }, ""},
		"a reason beyond room": {func(s *Store) { s.Noted(true, false, strings.Repeat("x", reasonMost-1)+"é") }, func(*Store) {}, strings.Repeat("x", reasonMost-1)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a, b := r.open(), r.open()
			put(t, a, "http://a.test/1", "http://b.test/1")
			flush(t, a)
			visitOne(t, a, c.a)
			visitOne(t, b, c.b)
			for _, s := range []*Store{a, b, r.open()} {
				require.True(t, rouse(t, s, 1).Complete)
				require.Equal(t, c.want, s.Unvisited())
			}
			st := r.status()
			require.Equal(t, c.want, st.Unvisited)
		})
	}
}

// What was found is noted before the URL of which it was found is done, though what is done waits for nothing.
func TestNotedBeforeDone(t *testing.T) {
	r := newRig(t)
	s := r.open()
	put(t, s, "http://a.test/1")
	flush(t, s)
	rouse(t, s, 1)
	_, got := load(t, s, "a.test", 1)
	s.Done(got.Items[0].URL.Host(), &got.Items[0], frontier.Visit{})
	s.Noted(true, true, "")
	ops, _ := s.inbox.take()
	require.Len(t, ops, 2)
	require.NoError(t, s.writer.send(t.Context(), ops))
	require.Equal(t, opNote, ops[0].kind, "whatever was told first")
	require.Equal(t, opDone, ops[1].kind)
}

// Whether any host has answered is the same to all processes of a job, and to those that come later.
func TestUnanswered(t *testing.T) {
	for name, c := range map[string]struct {
		note func(*Store)
		want bool
	}{
		"nobody was": {func(*Store) {}, true},
		"one was":    {func(s *Store) { s.Noted(true, false, "") }, false},
		"to a URL":   {func(s *Store) { s.Noted(true, true, "") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a, b := r.open(), r.open()
			put(t, a, "http://a.test/1", "http://b.test/1")
			flush(t, a)
			visitOne(t, a, c.note)
			visitOne(t, b, func(*Store) {})
			for _, s := range []*Store{a, b, r.open()} {
				require.True(t, rouse(t, s, 1).Complete)
				require.Equal(t, c.want, s.Unanswered())
			}
			st := r.status()
			require.Equal(t, c.want, st.Unanswered)
		})
	}
}

// visitOne has a process take a host and end the visit of its one URL, behind what it notes.
func visitOne(t *testing.T, s *Store, note func(*Store)) {
	t.Helper()
	hosts := names(rouse(t, s, 1))
	require.Len(t, hosts, 1)
	_, got := load(t, s, hosts[0], 9)
	note(s)
	s.Done(got.Items[0].URL.Host(), &got.Items[0], frontier.Visit{})
	flush(t, s)
}
