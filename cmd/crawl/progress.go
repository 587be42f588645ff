package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
)

const (
	// A person reads a line that changes twice a second; more only flickers.
	statusEvery = 500 * time.Millisecond
	// A snapshot looks at every host, and the crawl waits meanwhile: with a million
	// hosts it is taken so much more seldom that it costs a twentieth of the time.
	snapshotShare = 20
)

// progress shows how a crawl is doing until ctx ends: on the whole screen, in a status line,
// or a log line now and then where there is no terminal.
func (j *job) progress(ctx context.Context, c *crawl.Crawler, view *live) {
	if j.tty != nil {
		defer func() { _ = j.tty.Close() }() // it was only read
	}
	if view != nil && view.run(ctx) {
		return
	}
	progress(ctx, j.term, j.log, steered{snapshot: c.Snapshot, paused: c.Paused, halted: c.Halted()}, j.cfg.Stats.Interval)
}

// progress shows it in lines; every is the time between two of a log.
func progress(ctx context.Context, t *terminal, log *slog.Logger, c steered, every time.Duration) {
	clk := clock.System()
	var p past
	if !t.live() {
		for clock.Sleep(ctx, clk, every) == nil {
			began := clk.Now()
			s := c.snapshot()
			p.note(&s)
			logProgress(log, c, &p, &s)
			every = max(every, snapshotShare*clk.Since(began))
		}
		return
	}
	defer t.clear()
	for every := statusEvery; clock.Sleep(ctx, clk, every) == nil; {
		began := clk.Now()
		s := c.snapshot()
		every = max(statusEvery, snapshotShare*clk.Since(began))
		p.note(&s)
		perSecond, _ := p.pace()
		t.show(statusParts(&s, perSecond)...)
	}
}

// statusParts are the parts of the status line, the most telling first: a narrow
// terminal shows only those.
func statusParts(s *crawl.Snapshot, perSecond float64) []string {
	parts := []string{
		seconds(s.ElapsedSeconds), plural(s.Pages, "page"), fmt.Sprintf("%.1f/s", perSecond),
		count(s.Frontier.Queued) + " queued", fmt.Sprintf("%d active", s.Frontier.Leased),
	}
	if s.Errors > 0 {
		parts = append(parts, plural(s.Errors, "error"))
	}
	parts = append(parts, size(s.Bytes))
	for i := range s.Hosts {
		if h := &s.Hosts[i]; h.Blocked && h.Queued > 0 && h.Until.Sub(s.Time) >= time.Second {
			return append(parts, fmt.Sprintf("%s: %s", h.Host, waiting(s, h, limitOf(s, h.Host))))
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
func logProgress(log *slog.Logger, c steered, p *past, s *crawl.Snapshot) {
	perSecond, bytes := p.pace()
	var refused int64
	for _, t := range refusedAs(s) {
		refused += t.n
	}
	log.Info("progress",
		slog.String("state", c.state()), slog.String("elapsed", seconds(s.ElapsedSeconds)), slog.Int64("pages", s.Pages),
		slog.String("pages_per_second", fmt.Sprintf("%.1f", perSecond)),
		slog.Int64("queued", s.Frontier.Queued), slog.Int64("active", s.Frontier.Leased),
		slog.Int64("errors", s.Errors), slog.Int64("refused", refused), slog.Int64("retries", s.Retries),
		slog.Int64("bytes", s.Bytes), slog.String("bytes_per_second", fmt.Sprintf("%.0f", bytes)),
		slog.Int64("hosts", s.Frontier.Hosts), slog.Int("open_circuits", s.Limiter.Open))
}
