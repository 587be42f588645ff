package report

import (
	"fmt"
	"maps"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// reportClusters bounds the pages told of that were repeated.
const reportClusters = 3

// writeDuplicates tells how many pages repeat others, and of those most often repeated.
func writeDuplicates(b *strings.Builder, t *neardup.Totals) {
	if t == nil || t.Exact+t.Near == 0 {
		return
	}
	counts := map[string]int64{"exact": t.Exact, "near": t.Near}
	maps.DeleteFunc(counts, func(_ string, n int64) bool { return n == 0 })
	writeCounts(b, "repeated pages", counts)
	for _, c := range t.Clusters[:min(len(t.Clusters), reportClusters)] {
		fmt.Fprintf(b, "    %s: %s\n", human.Plural(c.Exact+c.Near, "repetition"), c.URL)
	}
}
