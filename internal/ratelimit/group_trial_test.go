package ratelimit

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// leaky is nginx's limit_req: a refusal leaves the state as it is.
type leaky struct {
	rate, burst, excess float64
	last                time.Time
}

func (s *leaky) admit(now time.Time) bool {
	excess := max(0, s.excess-s.rate*now.Sub(s.last).Seconds()+1)
	if excess > s.burst {
		return false
	}
	s.excess, s.last = excess, now
	return true
}

// block is a world of many hosts at one address and a client with an endless backlog for each, in steps of ten
// milliseconds: a request is judged in the step after it was sent, and answered two steps later.
type block struct {
	*AdaptiveRateLimiter
	clk     *clocktest.Fake
	hosts   []*blockHost
	limitOf func(host int) *leaky
	out     []blockRequest // the oldest first
	steps   int
}

type blockHost struct {
	name string
	next time.Time // when to ask the limiter again
	out  int
}

type blockRequest struct {
	host     int
	sent     time.Time
	judged   bool
	admitted bool
	permit   Permit
}

const (
	blockStep = 10 * time.Millisecond
	blockTrip = 3 * blockStep
)

func newBlock(t tester, hosts int, change func(c *Config)) *block {
	clk := clocktest.NewFake(start)
	c := DefaultConfig()
	c.Clock = clk
	if change != nil {
		change(&c)
	}
	b := &block{AdaptiveRateLimiter: mustNew(t, c), clk: clk}
	for i := range hosts {
		b.hosts = append(b.hosts, &blockHost{name: fmt.Sprintf("h%d.test", i), next: start})
		b.SetAddress(b.hosts[i].name, blockAddress)
	}
	return b
}

var blockAddress = netip.MustParseAddr("192.0.2.1")

func (b *block) answer(now time.Time) (admitted, refused int) {
	for i := range b.out {
		if r := &b.out[i]; !r.judged && now.Sub(r.sent) >= blockStep {
			r.judged, r.admitted = true, b.limitOf(r.host).admit(now)
		}
	}
	for len(b.out) > 0 && now.Sub(b.out[0].sent) >= blockTrip {
		r := b.out[0]
		b.out = b.out[1:]
		fb := Feedback{StatusCode: 200, SentAt: r.sent, Latency: blockTrip}
		if admitted++; !r.admitted {
			admitted, refused, fb.StatusCode = admitted-1, refused+1, 429
		}
		h := b.hosts[r.host]
		b.Feedback(h.name, fb)
		r.permit.Release()
		h.out--
		h.next = now
	}
	return admitted, refused
}

func (b *block) send(t tester, now time.Time) {
	for k := range b.hosts {
		i := (b.steps + k) % len(b.hosts)
		for h := b.hosts[i]; h.out < 8 && !h.next.After(now); {
			if at, why := b.ReadyAt(h.name, 0, 0); why != LimitNone {
				h.next = later(at, now.Add(1))
				break
			}
			p, err := b.Acquire(deadlineContext{t.Context(), now}, h.name)
			if err != nil {
				break
			}
			h.out++
			b.out = append(b.out, blockRequest{host: i, sent: now, permit: p})
		}
	}
}

// run lets time pass until d after the start, counting what is answered from from on.
func (b *block) run(t tester, d, from time.Duration) (perSecond, refused float64) {
	var count [2]int
	for b.clk.Since(start) < d {
		now := b.clk.Now()
		ok, no := b.answer(now)
		if now.Sub(start) >= from {
			count[0], count[1] = count[0]+ok, count[1]+no
		}
		b.send(t, now)
		b.clk.Advance(blockStep)
		b.steps++
	}
	return float64(count[0]) / (d - from).Seconds(), float64(count[1]) / float64(max(count[0]+count[1], 1))
}

// The experiment keeps under what was admitted before: the favoured go at twice their old
// rate and, though nothing refuses them, no faster. Otherwise the common limit would refuse
// them in the end, and be taken for limits of their own.
func TestTrialKeepsUnderTheCommonLimit(t *testing.T) {
	b := newBlock(t, 50, nil)
	common := &leaky{rate: 25, burst: 50}
	b.limitOf = func(int) *leaky { return common }
	g := b.lockedGroup(b.hosts[0].name)
	at, step := time.Duration(0), time.Second/4
	for ; g.watch == nil || g.watch.trial == nil; at += step {
		require.Less(t, at, time.Minute, "the question is raised")
		b.run(t, at, 0)
	}
	for _, f := range g.watch.trial.favoured {
		s := b.lock(f.state.domain)
		s.bucket.rate = 10 * f.rate // a probe of its own
		s.favourLocked()
		require.Equal(t, f.rate, s.bucket.rate)
		s.mu.Unlock()
	}
	begun := at
	for ; g.merge == nil; at += step {
		require.NotNil(t, g.watch)
		require.NotNil(t, g.watch.trial, "no trial without a verdict")
		for _, f := range g.watch.trial.favoured {
			require.LessOrEqual(t, f.state.bucket.rate, f.rate)
		}
		_, refused := b.run(t, at, begun+time.Second)
		require.False(t, refused > 0, "%v after the trial's begin", at-begun)
	}
	require.Less(t, at-begun, 30*time.Second)
}

// Hosts that get less together than they had got each for itself are let go their own ways,
// soon after they were merged: one of them does not share the limit of the others.
func TestMergeThatCostsIsUndone(t *testing.T) {
	b := newBlock(t, 20, nil)
	common, own := &leaky{rate: 20, burst: 10}, &leaky{rate: 10, burst: 10}
	b.limitOf = func(int) *leaky { return common }
	b.run(t, 40*time.Second, 0)
	g := b.lockedGroup(b.hosts[0].name)
	require.NotNil(t, g.merge)
	judged := b.timeOf(g.merge.since.Add(judgeAfter)).Sub(start)
	common.rate = 10
	b.limitOf = func(i int) *leaky {
		if i == 0 {
			return own
		}
		return common
	}
	b.run(t, judged-time.Second, 0)
	require.Equal(t, 1, b.Snapshot().Merged)
	b.run(t, judged+5*time.Second, 0)
	require.Zero(t, b.Snapshot().Merged)
	events := b.Snapshot().GroupEvents
	require.Regexp(t, `^20 hosts at this address are paced one by one again: together they got less than the [\d.]+/s that they had got each for itself$`, events[len(events)-1].Text)
	require.Greater(t, events[1].ToRPS, 1.2*events[1].FromRPS)
	perSecond, _ := b.run(t, judged+5*time.Minute, judged+2*time.Minute)
	require.Greater(t, perSecond, 19.0, "of 20/s")
}

func (b *block) lockedGroup(domain string) *group {
	s := b.lock(domain)
	defer s.mu.Unlock()
	return s.addr
}

// An order to wait holds its host, and all hosts of the address only if they are limited as one.
func TestRetryAfterHoldsMergedHostsOnly(t *testing.T) {
	b := newBlock(t, 20, nil)
	common := &leaky{rate: 20, burst: 10}
	b.limitOf = func(int) *leaky { return common }
	for _, tc := range []struct {
		until  time.Duration
		merged int
	}{{time.Second, 0}, {3 * time.Minute, 1}} {
		b.run(t, tc.until, 0)
		require.Equal(t, tc.merged, b.Snapshot().Merged)
		end := b.clk.Now().Add(time.Minute)
		b.Feedback("h0.test", Feedback{StatusCode: 429, RetryAfter: time.Minute})
		for _, h := range b.hosts {
			at, why := b.ReadyAt(h.name, 0, 0)
			if h.name == "h0.test" || tc.merged == 1 {
				require.False(t, at.Before(end), "%s: %v", h.name, at.Sub(end))
				require.Equal(t, LimitRetryAfter, why)
			} else {
				require.True(t, at.Before(end), h.name)
			}
		}
	}
}

// That hosts are paced as one, and that they are no longer, is told once each, with whom
// it rests on and why, to the hook and in the snapshot.
func TestEventsOfGroups(t *testing.T) {
	var told []Event
	b := newBlock(t, 20, func(c *Config) {
		c.OnEvent = func(e Event) {
			if e.Cause == control.CauseMerged || e.Cause == control.CauseParted {
				told = append(told, e)
			}
		}
	})
	common := &leaky{rate: 20, burst: 10}
	b.limitOf = func(int) *leaky { return common }
	b.run(t, 2*time.Minute, 0)
	require.Len(t, told, 1)
	e := told[0]
	require.Equal(t, control.CauseMerged, e.Cause)
	require.Equal(t, "ip:192.0.2.1", e.Domain)
	require.Greater(t, len(e.Hosts), 1)
	require.IsIncreasing(t, e.Hosts)
	require.Subset(t, hostNames(b), e.Hosts)
	require.InDelta(t, 20, e.ToRPS, 5)
	require.Regexp(t, `^20 hosts at this address are limited as one and paced together, at about [\d.]+/s for all: h\d.* were refused at the same times, and a trial `, e.Text)
	require.Equal(t, told, b.Snapshot().GroupEvents)
	require.Equal(t, 1, b.Snapshot().Merged)
	d, _ := b.Inspect(b.hosts[0].name)
	require.Equal(t, "ip:192.0.2.1", d.Group.Name)
	require.Equal(t, 20, d.Group.Hosts)
	require.True(t, d.Group.Learned)
	require.InDelta(t, 20, d.Group.Rate, 4)
	require.Contains(t, d.Group.Reason, "ip:192.0.2.1: 20 hosts are limited as one")

	free, tight := &leaky{rate: 1e6, burst: 1e6}, &leaky{rate: 0.2}
	b.limitOf = func(i int) *leaky {
		if i == 0 {
			return tight
		}
		return free
	}
	b.run(t, 6*time.Minute, 0)
	require.Len(t, told, 2)
	e = told[1]
	require.Equal(t, control.CauseParted, e.Cause)
	require.Equal(t, []string{"h0.test"}, e.Hosts)
	require.Equal(t, "20 hosts at this address are paced one by one again: h0.test was refused again and again while the others were served", e.Text)
	require.Equal(t, told, b.Snapshot().GroupEvents)
}

func hostNames(b *block) (names []string) {
	for _, h := range b.hosts {
		names = append(names, h.name)
	}
	return names
}

func TestSomeOf(t *testing.T) {
	for want, hosts := range map[string][]string{
		"a":                    {"a"},
		"a and b":              {"a", "b"},
		"a, b, c and d":        {"a", "b", "c", "d"},
		"a, b, c and 2 others": {"a", "b", "c", "d", "e"},
	} {
		require.Equal(t, want, someOf(hosts))
	}
}
