package pipeline

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// moment writes an instant for people: the time of day, and the day too if that is not
// today. A quota may last for weeks.
func moment(now, t time.Time) string {
	now = now.In(t.Location())
	if t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// spent says that a host is not asked because its quota is used up; nothing if it is not.
func spent(h *frontier.HostState) string {
	if !h.Blocked || h.Reason != ratelimit.LimitQuota.String() {
		return ""
	}
	return fmt.Sprintf("the quota of %s is used up, %d URLs of it are left; ", h.Host, h.Queued)
}
