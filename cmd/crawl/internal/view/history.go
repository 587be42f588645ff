package view

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console"
	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

const (
	historyTime = 2 * time.Minute // how far back the history of the crawl reaches; trends show it
	maxMoments  = 256             // more than two a second, in case clocks or snapshots are odd
	trailRoom   = 32              // rates kept per host
	trailEvery  = time.Second     // the least time between two of them
	maxTrails   = 256             // hosts; a snapshot has fifty by queue and fifty by use
	paceTime    = 5 * time.Second // the window of a rate: half a second at a page per second has one page or none
	stretch     = 0.9             // seconds of a column of a trend: two snapshots, which may be late
)

// history keeps recent figures of a crawl and of the hosts in its snapshots. Its zero value is ready to use. It is not
// safe for concurrent use.
type history struct {
	moments []instant // the oldest first
	trails  map[string]*trail
}

// instant is the figures of the crawl at one time. Counts start at the beginning of the crawl.
type instant struct {
	at           time.Time
	elapsed      float64 // seconds
	pages, bytes int64
	left         int64 // URLs that are queued or in flight
}

type trail struct {
	rates []float64 // allowed requests per second, the oldest first
	asked []int     // URLs requested since the start, one value per rate; -1 means unknown
	at    time.Time // the time of the last rate
}

func last[T any](list []T, n int) []T { return slices.Delete(list, 0, max(len(list)-n, 0)) }

// note adds a snapshot. It forgets hosts that no snapshot has listed for as long as a trail reaches back.
func (p *history) note(s *pipeline.Snapshot) {
	old := slices.IndexFunc(p.moments, func(m instant) bool { return s.Time.Sub(m.at) <= historyTime })
	if old < 0 {
		old = len(p.moments)
	}
	p.moments = append(slices.Delete(p.moments, 0, old), instant{s.Time, s.ElapsedSeconds, s.Pages, s.Bytes, s.Frontier.Queued + s.Frontier.Leased})
	p.moments = last(p.moments, maxMoments)
	if p.trails == nil {
		p.trails = make(map[string]*trail)
	}
	hosts := make(map[string]*frontier.HostState, len(s.Hosts))
	for i := range s.Hosts {
		hosts[s.Hosts[i].Host] = &s.Hosts[i]
	}
	for i := range s.Limiter.Top {
		d := &s.Limiter.Top[i]
		n, rate := 0, d.FillRate
		if h := hosts[d.Domain]; h == nil && int(s.Frontier.Hosts) > len(s.Hosts) {
			n = -1 // the snapshot does not list all hosts, and not this one
		} else if h != nil {
			if n = h.Pages; !slices.Contains([]dashboard.State{dashboard.Active, dashboard.Idle}, console.StateOf(h, d.State)) {
				rate = 0 // nothing is sent
			}
		}
		t := p.trails[d.Domain]
		if t == nil && len(p.trails) < maxTrails {
			t = new(trail)
			p.trails[d.Domain] = t
		}
		if t != nil && (len(t.rates) == 0 || s.Time.Sub(t.at) >= trailEvery) {
			t.rates, t.asked, t.at = last(append(t.rates, rate), trailRoom), last(append(t.asked, n), trailRoom), s.Time
		}
	}
	for name, t := range p.trails {
		if s.Time.Sub(t.at) > trailRoom*trailEvery {
			delete(p.trails, name)
		}
	}
}

// pace returns the pages and bytes per second over the last paceTime.
func (p *history) pace() (pages, bytes float64) {
	if len(p.moments) == 0 {
		return 0, 0
	}
	now := &p.moments[len(p.moments)-1]
	var from instant // zero is the beginning of the crawl
	for i := range p.moments {
		if m := &p.moments[i]; now.elapsed-m.elapsed >= paceTime.Seconds() {
			from = *m
		}
	}
	if dt := now.elapsed - from.elapsed; dt > 0 {
		return float64(now.pages-from.pages) / dt, float64(now.bytes-from.bytes) / dt
	}
	return 0, 0
}

// throughput returns the pages per second in each of the last n stretches, the oldest first.
func (p *history) throughput(n int) []float64 {
	var rates []float64
	for i := len(p.moments) - 1; i > 0 && len(rates) < n; {
		to := &p.moments[i]
		j := i - 1
		for j > 0 && to.elapsed-p.moments[j].elapsed < stretch {
			j--
		}
		if dt := to.elapsed - p.moments[j].elapsed; dt >= stretch {
			rates = append(rates, float64(to.pages-p.moments[j].pages)/dt)
		}
		i = j
	}
	slices.Reverse(rates)
	return rates
}

// busy returns how many URLs of a host were requested in the last paceTime, or -1 if that is unknown.
func (p *history) busy(host string) int {
	t := p.trails[host]
	if t == nil || len(t.asked) == 0 {
		return -1
	}
	from := max(len(t.asked)-1-int(paceTime/trailEvery), 0)
	first, last := t.asked[from], t.asked[len(t.asked)-1]
	if first < 0 || last < 0 {
		return -1
	}
	return last - first
}

// sparkline draws the last n values on a scale that begins at zero, so that a steady rate looks like a flat line. If
// there are fewer than n, it pads them with spaces in front.
func sparkline(values []float64, n int) string {
	sparks := []rune("▁▂▃▄▅▆▇█")
	values = values[max(len(values)-n, 0):]
	top := 0.0
	for _, v := range values {
		if v > top { // false for NaN
			top = v
		}
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", max(n-len(values), 0)))
	for _, v := range values {
		at := 0
		if top > 0 && v > 0 {
			at = min(int(v/top*float64(len(sparks)-1)+0.5), len(sparks)-1)
		}
		b.WriteRune(sparks[at])
	}
	return b.String()
}

const (
	drainTime  = 20 * time.Second   // how long the queue must have become shorter before an end is predicted
	drainLeast = 0.02               // share of the queue that must have gone; with less the end is hours away
	farthest   = 7 * 24 * time.Hour // the farthest end that is predicted
)

// remaining predicts how long the crawl still takes. It does so only if the queue has become shorter over both halves
// of the history, no host with queued URLs is blocked or excluded, and nobody has paused the crawl. The prediction is
// the queue divided by the rate at which it became shorter, or, if that is longer, the queue of the slowest host
// divided by the rate at which that host may be requested.
func (p *history) remaining(s *pipeline.Snapshot, paused bool) (left time.Duration, known bool) {
	n := len(p.moments)
	if paused || s.State != pipeline.EndNone || n < 3 {
		return 0, false
	}
	first, last := &p.moments[0], &p.moments[n-1]
	span := last.at.Sub(first.at)
	if last.left <= 0 || span < drainTime {
		return 0, false
	}
	half := first
	for i := range p.moments {
		if m := &p.moments[i]; m.at.Sub(first.at) <= span/2 {
			half = m
		}
	}
	gone := first.left - last.left
	if half.left >= first.left || last.left >= half.left || float64(gone) < drainLeast*float64(last.left) {
		return 0, false
	}
	seconds := float64(last.left) / float64(gone) * span.Seconds()
	for i := range s.Hosts {
		h := &s.Hosts[i]
		switch {
		case h.Queued == 0:
		case h.Blocked || h.Excluded:
			return 0, false
		default:
			if d := limitOf(s, h.Host); d != nil && d.FillRate > 0 {
				seconds = max(seconds, float64(h.Queued)/d.FillRate)
			}
		}
	}
	if seconds > farthest.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// Progress shows the crawl until ctx ends: in a status line if t has one, or else in a log line at every interval.
func Progress(ctx context.Context, t *cli.Terminal, log *slog.Logger, c Crawl, every time.Duration) {
	clk := clock.System()
	var p history
	if t.Live() {
		defer t.Clear()
		every = cli.StatusEvery
	}
	for wait := every; clock.Sleep(ctx, clk, wait) == nil; {
		began := clk.Now()
		s := c.Snapshot()
		p.note(&s)
		if t.Live() {
			perSecond, _ := p.pace()
			t.Show(statusParts(&s, perSecond)...)
		} else {
			logProgress(log, c, &p, &s)
		}
		wait = max(every, snapshotShare*clk.Since(began))
	}
}

// statusParts returns the parts of the status line, the most important first, since a narrow terminal shows only the
// first ones.
func statusParts(s *pipeline.Snapshot, perSecond float64) []string {
	parts := []string{
		cli.Seconds(s.ElapsedSeconds), cli.Plural(s.Pages, "page"), fmt.Sprintf("%.1f/s", perSecond),
		cli.Count(s.Frontier.Queued) + " queued", fmt.Sprintf("%d active", s.Frontier.Leased),
	}
	if s.Errors > 0 {
		parts = append(parts, cli.Plural(s.Errors, "error"))
	}
	parts = append(parts, cli.Size(s.Bytes))
	for i := range s.Hosts {
		h := &s.Hosts[i]
		state := console.StateOf(h, breaker.Closed)
		if (state == dashboard.Refusing || state == dashboard.Paused) && h.Queued > 0 && h.Until.Sub(s.Time) >= time.Second {
			return append(parts, h.Host+": "+waiting(s, h, limitOf(s, h.Host)))
		}
	}
	return parts
}

// logProgress logs the figures of the live view as attributes that can be searched. Every line has all of them, in the
// same order; before them a line may have the reason why no request leaves the crawl.
func logProgress(log *slog.Logger, c Crawl, p *history, s *pipeline.Snapshot) {
	perSecond, bytes := p.pace()
	state := "running"
	switch {
	case c.stopping():
		state = "stopping"
	case c.Paused():
		state = "paused"
	}
	refused, _ := tallied(tallies(s, isRefusal))
	if s.Reason != "" {
		log = log.With(slog.String("reason", s.Reason))
	}
	log.Info("progress",
		slog.String("state", state), slog.String("elapsed", cli.Seconds(s.ElapsedSeconds)), slog.Int64("pages", s.Pages),
		slog.String("pages_per_second", fmt.Sprintf("%.1f", perSecond)),
		slog.Int64("queued", s.Frontier.Queued), slog.Int64("active", s.Frontier.Leased),
		slog.Int64("errors", s.Errors), slog.Int64("refused", refused), slog.Int64("retries", s.Retries),
		slog.Int64("bytes", s.Bytes), slog.String("bytes_per_second", fmt.Sprintf("%.0f", bytes)),
		slog.Int64("hosts", s.Frontier.Hosts), slog.Int("open_circuits", s.Limiter.Open))
}
