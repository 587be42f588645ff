package ratelimit

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/limit"
)

// CapSnapshot is one of the user's hard limits and how it stands. It says for itself what
// the limit is, so that whoever reads a line of statistics needs no configuration beside
// it. Of all of a limiter's statistics it has what tells when there is more: how often it
// refused says nothing here, as the engine asks it for the time and is not refused.
type CapSnapshot struct {
	Limit    Limit      `json:"limit"`                // as which it limits: cap, quota, global_concurrency, global_bytes
	Kind     limit.Kind `json:"kind"`                 // the algorithm
	Permits  int64      `json:"permits"`              // requests, or bytes for global_bytes
	PerMS    float64    `json:"per_ms,omitempty"`     // the span; zero for what is out at a time
	Left     int64      `json:"left"`                 // permits that are there now; below zero is a debt
	NextInMS float64    `json:"next_in_ms,omitempty"` // until there is one; zero for now, or when that depends on a release

	among string // whom it holds for, in words; empty: all domains of this process
}

// snapshotOf puts a limiter's figures together. A wait of [limit.Never] is that for a
// release; no caller ever sees the century that it would be as a number.
func snapshotOf(why Limit, spec limit.Spec, left int64, wait time.Duration) CapSnapshot {
	c := CapSnapshot{Limit: why, Kind: spec.Kind, Permits: spec.Permits, PerMS: millis(spec.Per), Left: left}
	if c.Kind == "" {
		c.Kind = limit.KindTokenBucket
	}
	if wait != limit.Never {
		c.NextInMS = millis(wait)
	}
	return c
}

// describeCapsLocked are the caps of the domain's rule.
func (s *state) describeCapsLocked() (all []CapSnapshot) {
	if s.rules.caps == nil {
		return nil
	}
	for i, c := range s.rules.caps {
		if c != nil {
			all = append(all, snapshotOf(c.why, c.spec, s.capLeftLocked(i), s.capWaitLocked(i, 1)))
		}
	}
	return all
}

// capLeftLocked is how many permits of a cap there are now.
func (s *state) capLeftLocked(i int) int64 {
	if s.rules.held != nil && !s.dead {
		return s.rules.held[i].Limiter.Statistics().Available
	}
	c := s.rules.caps[i]
	if st, ok := c.keyed.Statistics(s.domain); ok {
		return st.Available
	}
	return max(c.spec.Permits, c.spec.Burst) // of one that has not been made yet
}

// globalCaps are those of all domains. The rate of all is not among them: it is a bucket of
// the engine's own, and the configuration has its only figure.
func (l *AdaptiveRateLimiter) globalCaps() (all []CapSnapshot) {
	b := l.shared.global
	if b == nil || b.caps == nil {
		return nil
	}
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	if c := b.caps.concurrency; c != nil {
		spec := limit.Spec{Kind: limit.KindConcurrency, Permits: int64(l.cfg.GlobalConcurrency)}
		cap := snapshotOf(LimitGlobalConcurrency, spec, c.Statistics().Available, limit.Never)
		if s := b.caps.slots; s != nil {
			cap.Left, cap.among = s.shareAt(l.now())-b.caps.out, s.whose(l.now())
		}
		all = append(all, cap)
	}
	if c := b.caps.bytes; c != nil {
		spec := limit.Spec{Kind: limit.KindTokenBucket, Permits: l.cfg.GlobalBytes, Per: time.Second}
		cap := snapshotOf(LimitGlobalBytes, spec, c.Statistics().Available, c.Wait(1))
		if f := b.caps.tokenSource; f != nil {
			now := l.now()
			cap.Left, cap.among = f.left(now), f.whose()
			cap.NextInMS = millis(max(f.when(now, 1).Sub(now), c.Wait(1)))
		}
		all = append(all, cap)
	}
	return all
}

// rps is the rate that a cap comes to in the long run; one without a span bounds none.
func (c *hardCap) rps() float64 {
	if c.spec.Per == 0 { // what is out at a time has no rate of its own: that is the host's to say
		return maxRPS
	}
	return float64(c.spec.Permits) / c.spec.Per.Seconds()
}

// slowest is the cap of a rule that lets the fewest requests through, or nil.
func (r *rules) slowest() (slow *hardCap) {
	if r.caps == nil {
		return nil
	}
	for _, c := range r.caps {
		if c != nil && c.why == LimitCap { // a quota paces nothing until it is used up
			slow = c
		}
	}
	return slow
}

// capReasonLocked is a cap in words, looked up anew: between the schedule that named it and
// this there is no unlocking, so it is the same that is waited for.
func (s *state) capReasonLocked(why Limit) string {
	for i, c := range s.rules.caps {
		if c != nil && c.why == why {
			d := snapshotOf(why, c.spec, s.capLeftLocked(i), s.capWaitLocked(i, 1))
			return d.reason()
		}
	}
	return why.String()
}

func (l *AdaptiveRateLimiter) globalCapReason(why Limit) string {
	for _, c := range l.globalCaps() {
		if c.Limit == why {
			return c.reason()
		}
	}
	return why.String()
}

// reason says what a cap is, how much of it is left, and when there is more.
func (c *CapSnapshot) reason() string {
	per := time.Duration(c.PerMS * float64(time.Millisecond))
	next := "nothing left"
	switch {
	case c.Left > 0:
		next = fmt.Sprintf("%d left", c.Left)
	case c.NextInMS > 0:
		next = fmt.Sprintf("nothing left, more in %s", c.next())
	}
	switch c.Limit {
	case LimitGlobalConcurrency:
		return fmt.Sprintf("%s: at most %d requests out at a time, %s", cmp.Or(c.among, allHosts), c.Permits, next)
	case LimitGlobalBytes:
		return fmt.Sprintf("%s: at most %d bytes per second, %s", cmp.Or(c.among, allHosts), c.Permits, c.debt())
	case LimitQuota:
		return fmt.Sprintf("your quota: %d requests per %s (%s), %s", c.Permits, span(per), c.Kind, next)
	}
	if per == 0 {
		return fmt.Sprintf("your cap: %d requests out at a time (%s), %s", c.Permits, c.Kind, next)
	}
	return fmt.Sprintf("your cap: %d requests per %s (%s), %s", c.Permits, span(per), c.Kind, next)
}

// debt says how a byte bucket stands. While it is not in debt, what is out may still
// bring more than there is.
func (c *CapSnapshot) debt() string {
	if c.Left <= 0 {
		return fmt.Sprintf("%d bytes in debt, paid in %s", -c.Left, c.next())
	}
	return strconv.FormatInt(c.Left, 10) + " left for what is out"
}

// next is how long until there is more, in figures that somebody reads.
func (c *CapSnapshot) next() string {
	wait := time.Duration(c.NextInMS * float64(time.Millisecond))
	if wait >= time.Minute {
		return span(wait.Round(time.Second))
	}
	return span(wait.Round(time.Millisecond))
}

// span leaves out the zero minutes and seconds of a duration: 24h, not 24h0m0s.
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
