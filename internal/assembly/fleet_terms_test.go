package assembly

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/redis"
)

// Who joins with other settings is told each, and which of them can be changed for all.
func TestFleetTermsNameTheFix(t *testing.T) {
	err := &FleetError{Job: "news", Err: &redis.TermsError{Job: "news", Diffs: []redis.Diff{
		{Term: "engine", Job: "1", Here: "2"},
		{Term: "max_pages", Job: "20", Here: "50"},
		{Term: "max_time", Job: "", Here: "1h"},
		{Term: "ratelimit.global_rps", Job: "20", Here: ""},
	}}}
	require.EqualError(t, err, `the job news is crawled with other settings:
  engine: 1 there, 2 here: run the version of crawl that made the job
  max_pages: 20 there, 50 here; 'crawl fleet set --job news --max-pages N' changes it for all
  max_time: nothing there, 1h here
  ratelimit.global_rps: 20 there, nothing here
give the same settings, or name another job by --job`)
}
