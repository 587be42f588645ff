//go:build unix

package redis

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/frontiertest"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

type lawful struct {
	*Store
	t    *rapid.T
	addr string
	job  string
	most int // pages of a host; zero: no bound
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
	if s.open == 0 && len(s.Answers()) == 0 {
		return a, false
	}
	select {
	case a = <-s.Answers():
		if a.Update == nil {
			s.open--
		}
		return a, true
	case <-s.Failed():
		s.t.Fatal(s.Err())
		return a, false
	}
}

func (s *lawful) Reopen() frontier.Left {
	s.close()
	var err error
	s.Store, err = Open(s.t.Context(), Config{
		Redis: rueidis.ClientOption{InitAddress: []string{s.addr}}, Job: s.job, key: frontiertest.Key, partitions: 1, known: 64, MaxPagesPerHost: s.most,
	})
	require.NoError(s.t, err)
	s.open = 0
	return s.Left()
}

func (s *lawful) close() {
	if s.Store != nil {
		require.NoError(s.t, s.Close())
	}
}

// newLawful makes a job of its own on the common server for each check.
func newLawful(t *testing.T) func(t *rapid.T, most int) frontiertest.Backend {
	addr := redistest.Redis.Shared(t).Addr
	jobs := 0
	return func(t *rapid.T, most int) frontiertest.Backend {
		jobs++
		s := &lawful{t: t, addr: addr, job: fmt.Sprintf("law-%d", jobs), most: most}
		t.Cleanup(s.close)
		return s
	}
}

func TestLaw(t *testing.T) {
	backend := newLawful(t)
	frontiertest.Law(t, func(t *rapid.T) frontiertest.Backend { return backend(t, 0) })
}

func TestBound(t *testing.T) { frontiertest.Bound(t, newLawful(t)) }
