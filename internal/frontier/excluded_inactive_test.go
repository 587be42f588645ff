package frontier_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Excluded hosts give their places in memory to others, are inactive as others do, are told
// from hosts that refuse, and come back when they are included, wherever they are.
func TestExcludedHostsGiveWay(t *testing.T) {
	s, _ := closedHosts(t, 9, 0)
	for h := range 5 {
		require.NoError(t, s.Exclude(noon, fmt.Sprintf("h%d.test", h)))
	}
	require.Equal(t, map[string]int{"h5.test": 7, "h6.test": 7, "h7.test": 7, "h8.test": 7}, s.visit(noon, noon.Add(2*time.Minute)))
	require.LessOrEqual(t, s.Counts().Hosts, int64(3))
	require.EqualValues(t, 5*7, s.Counts().Queued)
	now := noon.Add(2 * time.Minute)
	for range 10 { // until every one has had its turn in memory
		s.visit(now, now.Add(time.Minute))
		now = now.Add(time.Minute)
		s.Blocked(now)
	}
	b := s.Blocked(now)
	require.True(t, b.Whole)
	require.True(t, b.Excluded)
	for h := range 4 {
		require.True(t, s.Include(now, fmt.Sprintf("h%d.test", h)))
	}
	require.Equal(t, map[string]int{"h0.test": 7, "h1.test": 7, "h2.test": 7, "h3.test": 7}, s.visit(now, now.Add(time.Hour)))
	require.EqualValues(t, 7, s.Counts().Queued)
	require.True(t, s.Include(now, "h4.test"))
	require.Equal(t, map[string]int{"h4.test": 7}, s.visit(now, now.Add(2*time.Hour)))
	require.Zero(t, s.Bytes())
}
