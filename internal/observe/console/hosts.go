package console

import (
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

const (
	maxListed = 100_000 // how many hosts a table is made of; the others are counted. It is 20 MB.
	// listEvery is for how long one list serves all who look, and listTimes how many times as
	// long as it took.
	listEvery = time.Second
	listTimes = 9
	listTime  = time.Minute // how long a list is kept that nobody looks at
)

type listing struct {
	mu     sync.Mutex // guards what follows, and is held while the hosts are listed
	rows   []dashboard.Row
	left   int
	taken  time.Time
	next   time.Time // when rows serve no longer
	looked time.Time
}

// list is the hosts, a few moments old at most, when they were listed, and how many were too
// many. Nobody may change them.
func (c *Console) list() (rows []dashboard.Row, left int, taken time.Time) {
	l := &c.listing
	l.mu.Lock()
	defer l.mu.Unlock()
	begun := c.cfg.Clock.Now()
	l.looked = begun
	if !begun.Before(l.next) {
		l.rows, l.left, l.taken = nil, 0, begun
		c.crawl.EachHost(func(h frontier.HostState, b ratelimit.Brief) {
			if len(l.rows) >= maxListed {
				l.left++
				return
			}
			l.rows = append(l.rows, rowOf(&h, b))
		})
		end := c.cfg.Clock.Now()
		l.next = end.Add(max(listEvery, listTimes*end.Sub(begun)))
	}
	return l.rows, l.left, l.taken
}

func (l *listing) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.looked) > listTime {
		l.rows, l.next = nil, time.Time{}
	}
}

func (l *listing) stale() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = time.Time{}
}

func rowOf(h *frontier.HostState, b ratelimit.Brief) dashboard.Row {
	return dashboard.Row{
		Host: h.Host, State: StateOf(h, b.State), Reason: h.Reason, Queued: h.Queued, InFlight: h.InFlight,
		Pages: h.Pages, Rate: b.FillRate, LatencyMS: b.AvgLatencyMS, Failures: h.Failures,
	}
}

// StateOf is a host in one word: what is worst about it.
func StateOf(h *frontier.HostState, circuit breaker.State) dashboard.State {
	switch {
	case h.Excluded:
		return dashboard.Blocked
	case circuit != breaker.Closed:
		return dashboard.Failing
	case h.Queued == 0 && h.InFlight == 0:
		return dashboard.Idle
	case h.Blocked:
		return dashboard.Refusing
	case h.InFlight == 0 && h.Reason != "":
		return dashboard.Waiting
	}
	return dashboard.Asking
}
