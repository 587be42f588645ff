package testsite

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// WriteHostsView is the other side of the crawl, in the few columns that fit beside
// the crawler's own table. `crawl testsite` prints all there is.
func WriteHostsView(w io.Writer, r *testsite.Report, columns int) error {
	t := human.Rows{
		{Title: "host", Left: true},
		{Title: "requests"},
		{Title: "refused"},
		{Title: "too early", Keep: 3},
		{Title: "peak/s", Keep: 2},
		{Title: "limit/s", Dull: "", Keep: 2},
		{Title: "min gap", Keep: 1},
		{Title: "pages"},
		{Title: "twice"},
		{Title: "robots.txt broken"},
	}
	for i := range r.Hosts {
		h := &r.Hosts[i]
		limit := human.Unknown
		if h.Allowed > 0 {
			limit = fmt.Sprintf("%.3g", h.Allowed)
		}
		t.Row(
			h.Name, human.Count(h.Requests), human.Count(h.Refusals), human.Count(h.InsideRetryAfter), fmt.Sprint(h.Peak), limit,
			h.MinGap.Round(time.Millisecond).String(), fmt.Sprintf("%d/%d", h.Distinct, h.URLs),
			human.Count(h.Duplicates), human.Count(h.RobotsViolations+h.DelayViolations),
		)
	}
	var b strings.Builder
	b.WriteString("\nWhat the hosts saw:\n")
	human.Layout(&b, t, columns)
	b.WriteString("too early: inside a Retry-After; twice: pages served again\n")
	_, err := io.WriteString(w, b.String())
	return err
}
