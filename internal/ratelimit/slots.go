package ratelimit

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// slots is this process's share of Config.GlobalConcurrency, if several processes share it.
// It ends unless it is told anew: then no request is begun, and what is out is not counted
// by anybody else until its owner has cut it off.
type slots struct {
	share int64
	until clock.Instant
	peak  int64 // requests that were out at once, since Slots was asked
	short bool  // somebody was kept waiting for want of a share, since then
}

// room reports whether n more may be out beside those that are.
func (s *slots) room(now clock.Instant, out, n int64) bool {
	if out+n <= s.shareAt(now) {
		return true
	}
	s.short = true
	return false
}

// shareAt is the share that holds.
func (s *slots) shareAt(now clock.Instant) int64 {
	if now >= s.until {
		return 0
	}
	return s.share
}

// whose says whom the cap is for.
func (s *slots) whose(now clock.Instant) string {
	if now >= s.until {
		return wholeFleet + unanswered
	}
	return fmt.Sprintf("%s, of which this process has %d", wholeFleet, s.share)
}

// share has the caps hold for several processes.
func (g *globalCaps) share(l *AdaptiveRateLimiter, b *budget) {
	if g.bytes != nil {
		g.tokenSource = l.newTokenSource(b, "bytes", "bytes", float64(l.cfg.GlobalBytes))
		g.tokenSource.size = max(1, g.tokenSource.most/8) // nobody fetches a single byte
	}
	if g.concurrency != nil {
		g.slots = &slots{until: never}
	}
}

// ShareSlots tells how many of Config.GlobalConcurrency this process has until an instant.
// Beyond that, or until it is called, nothing is granted. A share that is less than what is
// out lets nothing begin until enough has ended. Without Config.Fleet it does nothing.
func (l *AdaptiveRateLimiter) ShareSlots(n int, until time.Time) {
	s := l.slots()
	if s == nil {
		return
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	s.share, s.until = int64(n), l.instantOf(until)
	l.shared.global.nudge()
}

// Slots is how many requests may be out until ShareSlots is called, which are more than its
// share if so many are out yet, and how many could be used at once, by what was used since it
// was asked before. Without a share of Config.GlobalConcurrency both are zero.
func (l *AdaptiveRateLimiter) Slots() (held, want int) {
	s := l.slots()
	if s == nil {
		return 0, 0
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	caps := l.shared.global.caps
	n := max(s.peak, caps.out)
	if s.short {
		n = max(2*n, s.share+1)
	}
	s.peak, s.short = caps.out, false
	return int(max(caps.out, s.shareAt(l.now()))), int(min(n, int64(l.cfg.GlobalConcurrency)))
}

// slots are those of the budget of all domains; nil if processes share none.
func (l *AdaptiveRateLimiter) slots() *slots {
	if b := l.shared.global; b != nil && b.caps != nil {
		return b.caps.slots
	}
	return nil
}

// budgetUse is a budget that processes share, as far as this one has used it.
type budgetUse struct {
	name    string  // of the setting, such as "global_rps"
	plan    float64 // of all processes together: a second, or at a time
	used    int64   // by this process, since it began; of a concurrency: out now
	share   int64   // of a concurrency: what this process has of it; else tokens that it has
	missing bool    // whoever keeps the count does not answer
}

// budgetUses are the budgets of all domains that processes share; nil if there are none.
func (l *AdaptiveRateLimiter) budgetUses() (all []budgetUse) {
	b := l.shared.global
	if b == nil || l.cfg.Fleet == nil {
		return nil
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	now := l.now()
	add := func(name string, plan float64, f *tokenSource) {
		if f != nil {
			all = append(all, budgetUse{name, plan, f.used, max(0, f.left(now)), f.failed})
		}
	}
	add("global_rps", l.cfg.GlobalRPS, b.tokenSource)
	if c := b.caps; c != nil {
		add("global_bytes", float64(l.cfg.GlobalBytes), c.tokenSource)
		if s := c.slots; s != nil {
			all = append(all, budgetUse{"global_concurrency", float64(l.cfg.GlobalConcurrency), c.out, s.shareAt(now), now >= s.until})
		}
	}
	return all
}
