package ratelimit

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

func listen(t *testing.T, change func(c *Config)) (*rig, func() []string) {
	var mu sync.Mutex
	var told []string
	r := newRig(t, func(c *Config) {
		if change != nil {
			change(c)
		}
		c.OnEvent = func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%v %s %v %v %v", e.Time.Sub(start), e.Domain, e.Cause, e.State, e.Text))
		}
	})
	return r, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return told
	}
}

// A classic breaker's whole way, and what the host and its robots.txt ask for.
func TestEventsOfClassic(t *testing.T) {
	r, told := listen(t, func(c *Config) { c.ConsecutiveFailThreshold, c.HalfOpenProbes, c.InitialRPS = 2, 1, 4 })
	r.SetCrawlDelay(host, 500*time.Millisecond)
	r.SetCrawlDelay(host, 500*time.Millisecond) // the same again, as with each robots.txt
	r.to(time.Second)
	r.request(host, ok(0))
	r.to(2 * time.Second)
	r.request(host, status(500))
	r.to(3 * time.Second)
	r.request(host, status(500))
	r.to(18 * time.Second)
	r.request(host, ok(0))
	r.to(20 * time.Second)
	r.request(host, Feedback{StatusCode: 429, RetryAfter: 7 * time.Second, Latency: time.Millisecond})
	r.to(21 * time.Second)
	r.SetCrawlDelay(host, 0)
	require.Equal(t, []string{
		"0s a.test crawl_delay closed robots.txt asks for 500ms between requests: down from 4.00/s to 2.00/s",
		"2s a.test failures closed requests failed at 2.00/s: down from 2.00/s to 1.00/s",
		"3s a.test failures open requests failed at 0.500/s: nothing for 15s, then one trial",
		"18s a.test half_open half_open the pause is over: one trial may go out",
		"18s a.test recovered closed the host answers again: on at 0.600/s",
		"20s a.test retry_after closed the host answered 429 and asked to wait 7s: nothing goes out before",
		"20s a.test refused closed the host refused at 0.600/s: down from 0.600/s to 0.300/s",
		"21s a.test crawl_delay closed robots.txt asks for no delay any more: on at 0.300/s",
	}, told())
}

// Of the requests that were out when the host sent a Retry-After, each brings its own.
func TestOneEventPerOrder(t *testing.T) {
	r, told := listen(t, func(c *Config) { c.TokenBucketCapacity = 8 })
	order := func(sent, wait time.Duration) {
		r.Feedback(host, Feedback{StatusCode: 503, RetryAfter: wait, SentAt: start.Add(sent)})
	}
	r.to(2 * time.Second)
	order(0, 10*time.Second)
	order(0, 10*time.Second)
	r.to(3 * time.Second)
	order(time.Second, 9*time.Second) // as a date: the same end
	order(time.Second, 10*time.Second)
	order(time.Second, time.Minute) // this one asks for more
	r.to(70 * time.Second)
	order(69*time.Second, 10*time.Second) // and this one was sent since
	orders := slices.DeleteFunc(told(), func(line string) bool { return !strings.Contains(line, " retry_after ") })
	require.Equal(t, []string{
		"2s a.test retry_after closed the host answered 503 and asked to wait 10s: nothing goes out before",
		"3s a.test retry_after closed the host answered 503 and asked to wait 1m0s: nothing goes out before",
		"1m10s a.test retry_after closed the host answered 503 and asked to wait 10s: nothing goes out before",
	}, orders)
}

// A host that was forgotten comes back with what it owes; of a stranger there is no news.
func TestEventOfRevival(t *testing.T) {
	r, told := listen(t, func(c *Config) { c.DomainStateTTL = time.Minute })
	r.request("stranger.test", Feedback{})
	r.request(host, ok(0))
	r.Feedback(host, Feedback{StatusCode: 429, RetryAfter: 10 * time.Minute, SentAt: start.Add(1)})
	before := len(told())
	r.to(2 * time.Minute)
	r.sweep()
	require.Zero(t, r.Snapshot().Domains)
	r.Feedback(host, Feedback{})
	r.Feedback("stranger.test", Feedback{})
	require.Equal(t, []string{
		"2m0s a.test revived closed known from before: on at 0.550/s, after the 8m0s it still has to wait",
	}, told()[before:])
}

// Only the last are kept, in order, in little memory, and none where nothing happens.
func TestEventsAreBounded(t *testing.T) {
	r := newRig(t, nil)
	r.request(host, ok(0))
	require.Nil(t, r.lockedJournal(host), "a journal without an event")
	for i := range 1000 {
		r.SetCrawlDelay(host, time.Duration(i+1)*time.Millisecond)
	}
	shown := r.see(host).Events
	require.Len(t, shown, 8)
	for i, e := range shown {
		require.Equal(t, int64(993+i), e.HoldMS)
	}
	j := r.lockedJournal(host)
	require.Equal(t, []int{8, 8}, []int{len(j.events), cap(j.events)})
	text, err := json.Marshal(r.see(host))
	require.NoError(t, err)
	var back DomainSnapshot
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, shown, back.Events)
}

func (r *rig) lockedJournal(domain string) *journal[control.Event] {
	s := r.lock(domain)
	defer s.mu.Unlock()
	return s.journal
}

// Many feed one host while its events are told: one hook at a time, in the order of the
// events, and it may call the limiter.
func TestEventsAreToldInOrder(t *testing.T) {
	var inside, calls atomic.Int32
	var last time.Time
	var r *rig
	r = newRig(t, func(c *Config) {
		c.OnEvent = func(e Event) {
			if inside.Add(1) != 1 {
				t.Error("two hooks of one host at once")
			}
			if e.Time.Before(last) {
				t.Errorf("%v was told after %v", e.Time, last)
			}
			last = e.Time
			if calls.Add(1)%10 == 0 {
				r.SetCrawlDelay(host, time.Duration(calls.Load())*time.Millisecond)
				r.see(host)
				runtime.Gosched()
			}
			inside.Add(-1)
		}
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				r.clk.Advance(time.Millisecond)
				r.SetCrawlDelay(host, time.Duration(1+g*1000+i)*time.Millisecond)
			}
		})
	}
	wg.Wait()
	require.Positive(t, calls.Load())
	j := r.lockedJournal(host)
	require.Zero(t, j.untold, "an event was left behind")
	require.False(t, j.telling)
}

// What comes while a hook is slow is told after it, as far as it is kept.
func TestSlowHookIsToldTheLast(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var told []int64
	r := newRig(t, func(c *Config) {
		c.OnEvent = func(e Event) {
			if told = append(told, e.HoldMS); len(told) == 1 {
				close(entered)
				<-leave
			}
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() { r.SetCrawlDelay(host, time.Millisecond) })
	<-entered
	for i := range 20 {
		r.SetCrawlDelay(host, time.Duration(i+2)*time.Millisecond) // none of them waits
	}
	close(leave)
	wg.Wait()
	require.Equal(t, []int64{1, 14, 15, 16, 17, 18, 19, 20, 21}, told)
}

// A probe that comes back without an answer may be the last to look at a host.
func TestStateOfEventsFollowsTheBreaker(t *testing.T) {
	var states []breaker.State
	r := newRig(t, func(c *Config) {
		c.ConsecutiveFailThreshold = 1
		c.OnEvent = func(e Event) { states = append(states, e.State) }
	})
	r.request(host, status(500))
	r.to(15 * time.Second)
	p, _ := r.grant(host)
	p.Release()
	r.to(20 * time.Second)
	r.request(host, status(500))
	require.Equal(t, []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Open}, states)
}

// Listening costs no allocation while nothing happens.
func TestListeningAllocatesNothing(t *testing.T) {
	for _, strategy := range control.Names() {
		l := ample(t, strategy)
		l.cfg.OnEvent = func(Event) {}
		step := steps[2]
		for range 100 {
			require.NoError(t, step.do(l, t.Context(), host))
		}
		require.Zero(t, testing.AllocsPerRun(1000, func() { _ = step.do(l, t.Context(), host) }), strategy)
	}
}
