package frontier_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/frontiertest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

func TestLaw(t *testing.T) {
	t.Run("memory", func(t *testing.T) { frontiertest.Law(t, nil) })
	t.Run("store", func(t *testing.T) {
		frontiertest.Law(t, func(*rapid.T) frontiertest.Backend { return frontiertest.NewNaive() })
	})
}

func TestBound(t *testing.T) {
	t.Run("memory", func(t *testing.T) { frontiertest.Bound(t, nil) })
	t.Run("store", func(t *testing.T) {
		frontiertest.Bound(t, func(*rapid.T, int) frontiertest.Backend { return frontiertest.NewNaive() })
	})
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// always is a pacer that lets every host be asked at once.
type always struct{}

func (always) ReadyAt(string, int, int) (time.Time, ratelimit.Limit) {
	return time.Time{}, ratelimit.LimitNone
}

// What was put and does not come back is no crawl to go on with.
func TestStoreThatLosesURLs(t *testing.T) {
	s := frontiertest.NewNaive()
	f, err := frontier.New(frontier.Config{Pacer: always{}, Store: s, Resident: 1})
	require.NoError(t, err)
	for i := range 20 {
		u, err := canonical.Parse(fmt.Sprintf("http://a.test/%d", i))
		require.NoError(t, err)
		it := frontier.Item{URL: u}
		require.Equal(t, frontier.Queued, f.Add(noon, it, f.Fingerprint(&it)))
	}
	clear(s.URLs)
	f.Prove()
	for range 3 { // of the four in memory: half of them are gone then
		l, _ := f.Next(noon)
		require.NotNil(t, l)
	}
	a, ok := s.Answer()
	require.True(t, ok)
	require.EqualError(t, f.Take(noon, a), "16 URLs of a.test are not where they were put")

	f, err = frontier.New(frontier.Config{Pacer: always{}, Store: s, Left: frontier.Left{Queued: 3, Known: 3, LastID: 3}})
	require.NoError(t, err)
	_, _ = f.Next(noon)
	a, ok = s.Answer()
	require.True(t, ok)
	require.EqualError(t, f.Take(noon, a), "3 URLs of hosts that had no room are not where they were put")
}

// A store asks for a pause while as many calls wait as may, hands answers over to who takes them, and fails once.
func TestProgress(t *testing.T) {
	var p frontier.Progress
	p.Begin(2)
	p.Told(2)
	require.False(t, p.Ready())
	room := p.Room()
	p.Stored(1)
	<-room
	require.Nil(t, p.Room())
	n, limit := p.Pending()
	require.Equal(t, [2]int64{1, 2}, [2]int64{n, limit})
	done := make(chan struct{})
	require.True(t, p.Answer(done, frontier.Answer{Host: "a.test"}))
	require.Equal(t, "a.test", (<-p.Answers()).Host)
	for p.Offer(frontier.Answer{}) {
	}
	close(done)
	require.False(t, p.Answer(done, frontier.Answer{}))
	require.NoError(t, p.Err())
	require.True(t, p.Fail(frontier.ErrTooManyExcluded))
	require.False(t, p.Fail(nil))
	<-p.Failed()
	require.ErrorIs(t, p.Err(), frontier.ErrTooManyExcluded)
}
