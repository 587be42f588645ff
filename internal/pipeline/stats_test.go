package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/record"
)

// The changes of a round are those of pages, as in a report about its records.
func TestChangesOfPages(t *testing.T) {
	var s stats
	s.init()
	for _, kind := range []string{"page", "resource", "sitemap", "robots"} {
		s.record(&record.Record{Kind: kind, Status: 200, Change: "unchanged"}, false)
	}
	require.Equal(t, map[string]int64{"unchanged": 2}, s.snapshot().Changes)
}
