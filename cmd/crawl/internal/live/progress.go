package live

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// A snapshot looks at every host, and the crawl waits meanwhile: with a million hosts it is
// taken so much more seldom that it costs a twentieth of the time.
const snapshotShare = 20

// Progress shows it in lines; every is the time between two of a log.
func Progress(ctx context.Context, t *terminal.Terminal, log *slog.Logger, c Crawl, every time.Duration) {
	clk := clock.System()
	var p history
	if !t.Live() {
		for clock.Sleep(ctx, clk, every) == nil {
			began := clk.Now()
			s := c.Snapshot()
			p.note(&s)
			logProgress(log, c, &p, &s)
			every = max(every, snapshotShare*clk.Since(began))
		}
		return
	}
	defer t.Clear()
	for every := terminal.StatusEvery; clock.Sleep(ctx, clk, every) == nil; {
		began := clk.Now()
		s := c.Snapshot()
		every = max(terminal.StatusEvery, snapshotShare*clk.Since(began))
		p.note(&s)
		perSecond, _ := p.pace()
		t.Show(statusParts(&s, perSecond)...)
	}
}

// statusParts are the parts of the status line, the most telling first: a narrow
// terminal shows only those.
func statusParts(s *crawl.Snapshot, perSecond float64) []string {
	parts := []string{
		human.Seconds(s.ElapsedSeconds), human.Plural(s.Pages, "page"), fmt.Sprintf("%.1f/s", perSecond),
		human.Count(s.Frontier.Queued) + " queued", fmt.Sprintf("%d active", s.Frontier.Leased),
	}
	if s.Errors > 0 {
		parts = append(parts, human.Plural(s.Errors, "error"))
	}
	parts = append(parts, human.Size(s.Bytes))
	for i := range s.Hosts {
		if h := &s.Hosts[i]; h.Blocked && h.Queued > 0 && h.Until.Sub(s.Time) >= time.Second {
			return append(parts, fmt.Sprintf("%s: %s", h.Host, report.Waiting(s, h, limitOf(s, h.Host))))
		}
	}
	return parts
}

// limitOf is what the limiter knows of a host; nil if it is not among those used last.
func limitOf(s *crawl.Snapshot, host string) *ratelimit.DomainSnapshot {
	for i := range s.Limiter.Top {
		if d := &s.Limiter.Top[i]; d.Domain == host {
			return d
		}
	}
	return nil
}

// logProgress has the same as the live view, in fields that can be searched. They are
// always all there, in this order.
func logProgress(log *slog.Logger, c Crawl, p *history, s *crawl.Snapshot) {
	perSecond, bytes := p.pace()
	var refused int64
	for _, t := range refusedAs(s) {
		refused += t.n
	}
	log.Info("progress",
		slog.String("state", c.state()), slog.String("elapsed", human.Seconds(s.ElapsedSeconds)), slog.Int64("pages", s.Pages),
		slog.String("pages_per_second", fmt.Sprintf("%.1f", perSecond)),
		slog.Int64("queued", s.Frontier.Queued), slog.Int64("active", s.Frontier.Leased),
		slog.Int64("errors", s.Errors), slog.Int64("refused", refused), slog.Int64("retries", s.Retries),
		slog.Int64("bytes", s.Bytes), slog.String("bytes_per_second", fmt.Sprintf("%.0f", bytes)),
		slog.Int64("hosts", s.Frontier.Hosts), slog.Int("open_circuits", s.Limiter.Open))
}
