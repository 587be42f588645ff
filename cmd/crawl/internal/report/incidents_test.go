package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// Hosts that are paced as one are told of even when none of them is in trouble by itself.
func TestTroubleOfGroups(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	snap := crawl.Snapshot{Time: now}
	for i := range 6 {
		snap.Limiter.GroupEvents = append(snap.Limiter.GroupEvents, crawl.Event{
			Time: now.Add(time.Duration(i-6) * time.Minute), Domain: "ip:192.0.2.1", Cause: control.CauseMerged, Text: "20 hosts are limited as one",
		})
	}
	var b strings.Builder
	(&Report{Snap: &snap, Columns: 100}).writeIncidents(&b)
	require.Equal(t, incidentEvents, strings.Count(b.String(), "ip:192.0.2.1: "), b.String())
	require.Contains(t, b.String(), "ip:192.0.2.1: 1m00s ago: 20 hosts are limited as one\n")
	require.NotContains(t, b.String(), "5m00s ago")
}
