package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/neardup"
)

func TestWriteDuplicates(t *testing.T) {
	clusters := []neardup.Cluster{{URL: "http://a.test/", Exact: 3, Near: 4}, {URL: "http://b.test/", Near: 2}, {URL: "http://c.test/", Exact: 1}, {URL: "http://d.test/", Near: 1}}
	for name, tc := range map[string]struct {
		totals *neardup.Totals
		want   string
	}{
		"nobody looked":  {nil, ""},
		"none was found": {&neardup.Totals{}, ""},
		"one kind":       {&neardup.Totals{Near: 2, Clusters: clusters[1:2]}, "  repeated pages: 2 (2 near)\n    2 repetitions: http://b.test/\n"},
		"the largest": {
			&neardup.Totals{Exact: 4, Near: 7, Clusters: clusters},
			"  repeated pages: 11 (7 near, 4 exact)\n    7 repetitions: http://a.test/\n    2 repetitions: http://b.test/\n    1 repetition: http://c.test/\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			writeDuplicates(&b, tc.totals)
			require.Equal(t, tc.want, b.String())
		})
	}
}
