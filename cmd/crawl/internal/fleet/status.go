package fleet

import (
	"fmt"
	"io"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/internal/frontier/redis"
)

// writeStatus is a status for people.
func writeStatus(w io.Writer, s *redis.Status, columns int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, begun %s ago\n", s.Job, standing(s), human.Seconds(s.Now.Sub(s.Created).Seconds()))
	if text := advice(s); text != "" {
		fmt.Fprintf(&b, "  %s\n", text)
	}
	if s.Unread > 0 {
		fmt.Fprintf(&b, "  %s: %d of %d partitions are not in these figures\n", whoIsAway(s.Away), s.Unread, s.Partitions)
	}
	fmt.Fprintf(&b, "  URLs: %s known, %s done, %s queued", human.Count(s.Known), human.Count(s.Done), human.Count(s.Queued))
	if s.Refused > 0 {
		fmt.Fprintf(&b, ", %s beyond the bound of their host", human.Count(s.Refused))
	}
	fmt.Fprintf(&b, "\n  hosts: %s owned, %s ready, %s waiting", human.Count(s.Owned), human.Count(s.Ready), human.Count(s.Waiting))
	if s.Reclaimed > 0 {
		fmt.Fprintf(&b, ", %s taken back from processes that had died", human.Count(s.Reclaimed))
	}
	fmt.Fprintf(&b, "\n  memory: %s", human.Size(s.MemoryBytes))
	if s.MemoryLimit > 0 {
		fmt.Fprintf(&b, " of %s", human.Size(s.MemoryLimit))
	}
	b.WriteString("\n")
	for i := range s.Budgets {
		fmt.Fprintf(&b, "  %s\n", budgetLine(&s.Budgets[i]))
	}
	if len(s.Workers) > 0 {
		b.WriteString("\n")
		human.Layout(&b, workerColumns(s), columns)
	}
	_, err := io.WriteString(w, human.Clean(b.String()))
	return err
}

// whoIsAway says which masters of a cluster are.
func whoIsAway(masters []string) string {
	switch len(masters) {
	case 0:
		return "a part of the cluster does not answer"
	case 1:
		return "the master " + masters[0] + " of the cluster is away"
	}
	return "the masters " + strings.Join(masters, ", ") + " of the cluster are away"
}

// standing is how the job stands, in a few words.
func standing(s *redis.Status) string {
	switch s.Ended {
	case redis.EndedComplete:
		return "complete"
	case redis.EndedPages, redis.EndedTime:
		return "ended: " + string(s.Ended)
	case redis.EndedDrained:
		return "drained"
	case redis.EndedBlocked:
		return "ended: only blocked hosts remain"
	case redis.EndedAlone:
		return string(s.Control) + ", but no process is at it"
	}
	for i := range s.Budgets {
		if s.Budgets[i].UsedUp() {
			return "ending: " + s.Budgets[i].Name
		}
	}
	return string(s.Control)
}

// advice is what to do about a job that has come to an end before all was visited; empty:
// nothing.
func advice(s *redis.Status) string {
	switch s.Ended {
	case redis.EndedComplete:
		if s.Unvisited != "" {
			return "nothing could be asked for: " + s.Unvisited
		}
		if s.Unanswered && s.Done > 0 {
			return "no seed could be reached"
		}
	case redis.EndedPages:
		return "to go on: crawl fleet set --job " + s.Job + " --max-pages N, and begin its processes again"
	case redis.EndedTime:
		return "to go on: crawl fleet set --job " + s.Job + " --max-time TIME, and begin its processes again"
	case redis.EndedDrained:
		return "to go on: crawl fleet resume --job " + s.Job + ", and begin its processes again"
	case redis.EndedBlocked:
		return s.Blocked + "; to try them once more begin its processes again"
	case redis.EndedAlone:
		return "to go on: begin its processes again, by the same commands"
	}
	return ""
}

// budgetLine is a budget of the job and what is used of it.
func budgetLine(b *redis.Budget) string {
	switch b.Name {
	case "max_pages":
		return fmt.Sprintf("%s: %s of %s", b.Name, human.Count(int64(b.Used)), b.Plan)
	case "max_time":
		return fmt.Sprintf("%s: %s of %s", b.Name, human.Seconds(b.Used), b.Plan)
	case "ratelimit.global_bytes":
		return fmt.Sprintf("%s: %s a second of %s", b.Name, human.Size(int64(b.Used)), b.Plan)
	case "ratelimit.global_rps":
		return fmt.Sprintf("%s: %.1f a second of %s", b.Name, b.Used, b.Plan)
	case "ratelimit.ip_rps", "ratelimit.site_rps":
		if b.Scope == "" {
			return fmt.Sprintf("%s: nothing of %s a second each", b.Name, b.Plan)
		}
		return fmt.Sprintf("%s: %.1f a second of %s at %s, the busiest", b.Name, b.Used, b.Plan, b.Scope)
	}
	return fmt.Sprintf("%s: %.0f of %s", b.Name, b.Used, b.Plan)
}

func workerColumns(s *redis.Status) human.Rows {
	t := human.Rows{
		{Title: "process", Left: true},
		{Title: "state", Left: true},
		{Title: "hosts"},
		{Title: "done"},
		{Title: "found", Keep: 3},
		{Title: "dropped", Dull: "0", Keep: 2},
		{Title: "hosts lost", Dull: "0", Keep: 1},
		{Title: "lease", Left: true},
	}
	for i := range s.Workers {
		p := &s.Workers[i]
		lease := "ended"
		if p.Alive {
			lease = "for " + human.Seconds(p.Until.Sub(s.Now).Seconds())
		}
		t.Row(p.Name, string(p.Doing), human.Count(p.Hosts), human.Count(p.Done), human.Count(p.Added), human.Count(p.Dropped), human.Count(p.Lost), lease)
	}
	return t
}
