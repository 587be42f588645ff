package ratelimit

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
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

// block is a world of many hosts at one address and a client with an endless backlog
// for each, on a clock that jumps from event to event.
type block struct {
	*AdaptiveRateLimiter
	clk     *clocktest.Fake
	rnd     *rand.Rand
	hosts   []*blockHost
	events  blockEvents
	limitOf func(host int) *leaky
	count   [2]int // admitted and refused, by those counted
	from    time.Time
	seq     int
}

type blockHost struct {
	name   string
	next   time.Time // when to ask the limiter again
	served int       // order of service: round robin among those that are ready
	out    int
}

type blockEvent struct {
	at  time.Time
	seq int
	do  func()
}

type blockEvents []blockEvent

func (e blockEvents) Len() int { return len(e) }
func (e blockEvents) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e blockEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *blockEvents) Push(x any)   { *e = append(*e, x.(blockEvent)) }
func (e *blockEvents) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

func newBlock(t tester, hosts int, jitter uint64, change func(c *Config)) *block {
	clk := clocktest.NewFake(start)
	c := DefaultConfig()
	c.Clock = clk
	if change != nil {
		change(&c)
	}
	b := &block{AdaptiveRateLimiter: mustNew(t, c), clk: clk, rnd: rand.New(rand.NewPCG(jitter, 1))}
	for i := range hosts {
		b.hosts = append(b.hosts, &blockHost{name: fmt.Sprintf("h%d.test", i), next: start})
	}
	return b
}

var blockAddress = netip.MustParseAddr("192.0.2.1")

// tell says that all hosts are at one address.
func (b *block) tell() {
	for _, h := range b.hosts {
		b.SetAddress(h.name, blockAddress)
	}
}

func (b *block) after(d time.Duration, do func()) {
	b.seq++
	heap.Push(&b.events, blockEvent{at: b.clk.Now().Add(d), seq: b.seq, do: do})
}

// trip is how long one way takes: ten milliseconds, and up to ten more.
func (b *block) trip() time.Duration {
	return 10*time.Millisecond + time.Duration(b.rnd.Int64N(int64(10*time.Millisecond)))
}

func (b *block) send(i int, p Permit) {
	h := b.hosts[i]
	h.out++
	sent := b.clk.Now()
	b.after(b.trip(), func() {
		admitted := b.limitOf(i).admit(b.clk.Now())
		b.after(b.trip(), func() {
			now := b.clk.Now()
			code, counter := 200, 0
			if !admitted {
				code, counter = 429, 1
			}
			if !sent.Before(b.from) {
				b.count[counter]++
			}
			b.Feedback(h.name, Feedback{StatusCode: code, SentAt: sent, Latency: now.Sub(sent)})
			p.Release()
			h.out--
			h.next = now
		})
	})
}

// pump sends all that may be sent at the present, in turn.
func (b *block) pump(t tester) {
	now := b.clk.Now()
	for {
		best := -1
		for i, h := range b.hosts {
			if h.out < 8 && !h.next.After(now) && (best < 0 || h.served < b.hosts[best].served) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		h := b.hosts[best]
		at, why := b.ReadyAt(h.name, 0, 0)
		if why != LimitNone {
			h.next = at
			if !at.After(now) {
				h.next = now.Add(1)
			}
			continue
		}
		p, err := b.Acquire(deadlineContext{t.Context(), now}, h.name)
		if err != nil {
			h.next = now.Add(time.Millisecond)
			continue
		}
		b.seq++
		h.served = b.seq
		b.send(best, p)
	}
}

// run lets time pass until d after the start, counting what is sent from from on.
func (b *block) run(t tester, d, from time.Duration) (perSecond, refused float64) {
	b.from, b.count = start.Add(from), [2]int{}
	end := start.Add(d)
	for {
		b.pump(t)
		at := end
		if len(b.events) > 0 && b.events[0].at.Before(at) {
			at = b.events[0].at
		}
		for _, h := range b.hosts {
			if h.out < 8 && h.next.Before(at) {
				at = h.next
			}
		}
		b.clk.Advance(at.Sub(b.clk.Now()))
		if !at.Before(end) {
			break
		}
		for len(b.events) > 0 && !b.events[0].at.After(at) {
			heap.Pop(&b.events).(blockEvent).do()
		}
	}
	all := b.count[0] + b.count[1]
	return float64(b.count[0]) / (d - from).Seconds(), float64(b.count[1]) / float64(all)
}

// The experiment keeps under what was admitted before: the favoured go at twice their old
// rate and, though nothing refuses them, no faster. Otherwise the common limit would refuse
// them in the end, and be taken for limits of their own.
func TestTrialKeepsUnderTheCommonLimit(t *testing.T) {
	b := newBlock(t, 50, 1, nil)
	common := &leaky{rate: 25, burst: 50}
	b.limitOf = func(int) *leaky { return common }
	b.tell()
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
	b := newBlock(t, 20, 1, nil)
	common, own := &leaky{rate: 20, burst: 10}, &leaky{rate: 10, burst: 10}
	b.limitOf = func(int) *leaky { return common }
	b.tell()
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

// lockedGroup is the group of a domain's address.
func (b *block) lockedGroup(domain string) *group {
	s := b.lock(domain)
	defer s.mu.Unlock()
	return s.addr
}

// An order to wait holds its host, and all hosts of the address only if they are
// limited as one.
func TestRetryAfterHoldsMergedHostsOnly(t *testing.T) {
	b := newBlock(t, 20, 1, nil)
	common := &leaky{rate: 20, burst: 10}
	b.limitOf = func(int) *leaky { return common }
	b.tell()
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
