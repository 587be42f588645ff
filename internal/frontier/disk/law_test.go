package disk

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/frontiertest"
)

type lawful struct {
	*Store
	t    *rapid.T
	dir  string
	open int // questions not yet answered
}

func (s *lawful) Load(host string, behind frontier.Place, n int) {
	s.open++
	s.Store.Load(host, behind, n)
}

func (s *lawful) Activate(n int) {
	s.open++
	s.Store.Activate(n)
}

func (s *lawful) Answer() (a frontier.Answer, ok bool) {
	if s.open == 0 {
		return a, false
	}
	s.open--
	s.Commit(nil)
	select {
	case a = <-s.Answers():
		return a, true
	case <-s.Failed():
		s.t.Fatal(s.Err())
		return a, false
	}
}

func (s *lawful) Reopen() frontier.Left {
	s.close()
	var err error
	s.Store, err = Open(s.dir, Config{key: frontiertest.Key, memtableFPs: 64})
	require.NoError(s.t, err)
	s.open = 0
	return s.Left()
}

func (s *lawful) close() {
	if s.Store != nil {
		s.Commit(nil)
		require.NoError(s.t, s.Close())
	}
}

func newLawful(t *rapid.T) frontiertest.Backend {
	dir, err := os.MkdirTemp("", "law") // t.TempDir would keep them all until the end
	require.NoError(t, err)
	s := &lawful{t: t, dir: dir}
	t.Cleanup(func() {
		s.close()
		require.NoError(t, os.RemoveAll(dir))
	})
	return s
}

func TestLaw(t *testing.T) { frontiertest.Law(t, newLawful) }

// To open a state and to close it takes longer than what happens in between, and the random
// steps are those of the other frontiers: a few of them are for what is particular to this one.
func TestBound(t *testing.T) {
	checks := flag.Lookup("rapid.checks").Value
	all := checks.String()
	n, err := strconv.Atoi(all)
	require.NoError(t, err)
	require.NoError(t, checks.Set(strconv.Itoa(max(1, n/10))))
	defer func() { require.NoError(t, checks.Set(all)) }()
	frontiertest.Bound(t, func(t *rapid.T, _ int) frontiertest.Backend { return newLawful(t) })
}
