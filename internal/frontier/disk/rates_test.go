package disk

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit"
)

var ratesNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// learned is an entry that is so old.
func learned(name string, age time.Duration, rate float32) ratelimit.HostMemory {
	return ratelimit.HostMemory{Domain: name, LastUsed: ratesNow.Add(-age), Learned: ratelimit.Learned{Rate: rate}}
}

func saveRates(t *testing.T, s *Store, hosts ...ratelimit.HostMemory) {
	t.Helper()
	require.NoError(t, s.Rates().Save(t.Context(), slices.Values(hosts)))
}

func loadRates(t *testing.T, s *Store) []ratelimit.HostMemory {
	t.Helper()
	hosts, damage, err := s.Rates().Load()
	require.NoError(t, err)
	require.Zero(t, damage)
	return hosts
}

func ratesConfig() Config { return Config{clock: clocktest.NewFake(ratesNow), maxRates: 3} }

// What a limiter learned is there in the next process, though no batch was committed.
func TestRates(t *testing.T) {
	s := openState(t, t.TempDir(), ratesConfig())
	a := learned("a.test", time.Second, 4.85)
	a.Pause, a.RetryUntil, a.HeldUntil = 1500*time.Millisecond, ratesNow.Add(time.Minute+time.Microsecond), ratesNow.Add(time.Second)
	put(s, testItem(t, 1, "http://a.test/"), false)
	saveRates(t, s, learned("b.test:8080", time.Minute, 1), a, learned("old.test", 25*time.Hour, 1))
	require.Equal(t, s.path, s.Rates().Path())
	s = reopen(t, s)
	require.Zero(t, s.Left().Known)
	a.RetryUntil = ratesNow.Add(time.Minute + time.Millisecond) // never earlier than it was
	require.Equal(t, []ratelimit.HostMemory{a, learned("b.test:8080", time.Minute, 1)}, loadRates(t, s))
}

// Of two entries the newer one counts, but no order to wait is lost.
func TestRatesMerge(t *testing.T) {
	older, newer := learned("a.test", time.Minute, 1), learned("a.test", time.Second, 2)
	older.RetryUntil = ratesNow.Add(time.Minute)
	want := newer
	want.RetryUntil = older.RetryUntil
	for _, order := range [][]ratelimit.HostMemory{{older, newer}, {newer, older}} {
		s := openState(t, t.TempDir(), ratesConfig())
		saveRates(t, s, order[0])
		saveRates(t, s, order[1])
		require.Equal(t, []ratelimit.HostMemory{want}, loadRates(t, s))
	}
}

// Those used last are kept, and what says nothing any more is not.
func TestRatesAreBounded(t *testing.T) {
	s := openState(t, t.TempDir(), ratesConfig())
	saveRates(t, s, learned("a.test", 4*time.Hour, 1), learned("b.test", 2*time.Hour, 1), learned("c.test", 3*time.Hour, 1), learned("d.test", time.Hour, 1))
	hosts := loadRates(t, s)
	require.Len(t, hosts, 3)
	require.Equal(t, []string{"d.test", "b.test", "c.test"}, []string{hosts[0].Domain, hosts[1].Domain, hosts[2].Domain})
	s.cfg.clock.(*clocktest.Fake).Advance(22 * time.Hour)
	saveRates(t, s)
	require.EqualValues(t, 1, ask(t, s, `SELECT count(*) FROM rates`))
}

// Rows that no limiter has written are passed over, and told of.
func TestRatesDamage(t *testing.T) {
	s := openState(t, t.TempDir(), ratesConfig())
	saveRates(t, s, learned("a.test", 0, 1), learned("b.test", time.Hour, 1))
	require.NoError(t, s.Close())
	edit(t, s.path, `UPDATE rates SET rate = -1 WHERE host = 'b.test'`)
	s = openState(t, filepath.Dir(s.path), s.cfg)
	hosts, damage, err := s.Rates().Load()
	require.NoError(t, err)
	require.Len(t, hosts, 1)
	require.Equal(t, 1, damage.Lines)
	require.Equal(t, 2, damage.First)
	require.ErrorContains(t, damage.Err, "rate = -1")
}
