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
	// A log must not be mostly progress.
	progressLogEvery = 10 * time.Second
	// paceSamples of the status line are what its rate is taken over: at a page a
	// second, half a second has one page or none, and five seconds have five.
	paceSamples = 10
	// A snapshot looks at every host, and the crawl waits meanwhile: with a million
	// hosts it is taken so much more seldom that it costs a twentieth of the time.
	snapshotShare = 20
)

// progress shows how a crawl is doing until ctx ends: a status line on a terminal, a
// log line now and then elsewhere.
func progress(ctx context.Context, t *terminal, log *slog.Logger, snapshot func() crawl.Snapshot) {
	clk := clock.System()
	var p pace
	if !t.live() {
		for clock.Sleep(ctx, clk, progressLogEvery) == nil {
			s := snapshot()
			logProgress(log, &s, p.since(&s, 1))
		}
		return
	}
	defer t.clear()
	for every := statusEvery; clock.Sleep(ctx, clk, every) == nil; {
		began := clk.Now()
		s := snapshot()
		every = max(statusEvery, snapshotShare*clk.Since(began))
		t.show(statusParts(&s, p.since(&s, paceSamples))...)
	}
}

// pace is a short history of pages fetched.
type pace struct {
	samples []sample // oldest first
}

type sample struct {
	elapsed float64 // seconds
	pages   int64
}

// since adds s and returns the pages per second since up to n snapshots before, or
// since the beginning while there are fewer.
func (p *pace) since(s *crawl.Snapshot, n int) float64 {
	p.samples = append(p.samples, sample{s.ElapsedSeconds, s.Pages})
	from := sample{}
	if len(p.samples) > n {
		p.samples = p.samples[len(p.samples)-n-1:]
		from = p.samples[0]
	}
	if dt := s.ElapsedSeconds - from.elapsed; dt > 0 {
		return float64(s.Pages-from.pages) / dt
	}
	return 0
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

// logProgress has the same as the status line, in fields that can be searched.
func logProgress(log *slog.Logger, s *crawl.Snapshot, perSecond float64) {
	log.Info("progress",
		slog.String("elapsed", seconds(s.ElapsedSeconds)), slog.Int64("pages", s.Pages),
		slog.String("pages_per_second", fmt.Sprintf("%.1f", perSecond)),
		slog.Int64("queued", s.Frontier.Queued), slog.Int64("active", s.Frontier.Leased),
		slog.Int64("errors", s.Errors), slog.Int64("retries", s.Retries), slog.Int64("bytes", s.Bytes))
}
