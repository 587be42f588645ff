package watch

import (
	"fmt"
	"log/slog"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// MaxWaiting is how many changes may wait for an output. With more, nothing is visited until the output takes them.
const MaxWaiting = 100_000

// Write prints the counts of a round: with report as text for people, otherwise as a log line, if the round has visited
// anything.
func (c *Counts) Write(term *cli.Terminal, log *slog.Logger, report bool) {
	if !report {
		if c.Visits > 0 {
			log.Info("a round is done", slog.Int("visits", c.Visits), slog.Int("added", c.Added), slog.Int("changed", c.Changed), slog.Int("gone", c.Gone),
				slog.Int("failed", c.Failed), slog.Int("requests", c.Requests), slog.Int("pages", c.URLs), slog.Int("waiting", c.Waiting))
		}
		return
	}
	text := fmt.Sprintf("%s: %d added, %d changed, %d gone, %d unchanged", cli.Plural(c.Visits, "visit"), c.Added, c.Changed, c.Gone, c.Unchanged)
	some := func(n int, format string) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf(format, n)
	}
	text += some(c.Template, " (%d but for the template)") + some(c.First, ", %d seen for the first time") + some(c.Failed, ", %d failed")
	if c.Failure != "" {
		text += "\n  failed:   " + c.Failure
	}
	text += fmt.Sprintf("\n  watched:  %s\n  requests: %s\n", cli.Plural(c.URLs, "page"), cli.Count(c.Requests))
	if c.Visits == 0 && c.Waiting == 0 && c.Failure == "" {
		text += "  due:      nothing yet; --all asks for all pages now\n"
	}
	if c.Waiting > 0 {
		text += fmt.Sprintf("  due:      %s wait for the budget of tomorrow; --budget raises it\n", cli.Plural(c.Waiting, "URL"))
	}
	cli.Say(term, "%s", text)
}
