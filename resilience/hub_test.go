package resilience_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/treadlight/crawl/resilience"
)

func retryEvent(attempt int) resilience.RetryEvent { return resilience.RetryEvent{Attempt: attempt} }

func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h resilience.Hub
		var retries, all []string
		note := func(e resilience.RetryEvent) { retries = append(retries, fmt.Sprint(e.Attempt)) }
		assert.Zero(t, testing.AllocsPerRun(100, func() { assert.False(t, h.Wants(), "Wants = true with no listener") }))
		h.Emit(retryEvent(0)) // goes nowhere
		offRetries := resilience.Subscribe(&h, note)
		offAll := h.Any(func(e resilience.Event) { all = append(all, fmt.Sprintf("%T", e)) })
		h.Emit(retryEvent(1))
		h.Emit(resilience.TimeoutEvent{})
		h.Emit(retryEvent(2))
		synctest.Wait()
		offRetries()
		offRetries() // again is harmless
		assert.True(t, h.Wants(), "Wants = false with a listener left")
		h.Emit(resilience.FallbackEvent{})
		synctest.Wait()
		offAll()
		assert.False(t, h.Wants(), "Wants = true after the last listener has left")
		h.Emit(retryEvent(3))
		offRetries = resilience.Subscribe(&h, note) // it starts again
		h.Emit(retryEvent(4))
		synctest.Wait()
		offRetries()
		wantEqual(t, "retries", retries, []string{"1", "2", "4"})
		wantEqual(t, "all", all, []string{
			"resilience.RetryEvent", "resilience.TimeoutEvent", "resilience.RetryEvent", "resilience.FallbackEvent",
		})
	}) // the bubble ends only if the goroutine has: nobody closed the hub
}

// Events are told one at a time, also by a hub whose last listener left while it was told
// one, and that has another by now.
func TestHubTellsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h resilience.Hub
		start := time.Now()
		var heard []time.Duration
		off := h.Any(func(resilience.Event) { time.Sleep(5 * sec) })
		h.Emit(retryEvent(1))
		synctest.Wait()
		off()
		h.Any(func(resilience.Event) { heard = append(heard, time.Since(start)) })
		h.Emit(retryEvent(2))
		h.Close()
		wantEqual(t, "heard at", heard, []time.Duration{5 * sec})
	})
}

// A listener that hangs costs events, not time: the queue takes what fits and the rest is
// counted. Who comes later hears what comes later.
func TestHubSlowListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h resilience.Hub
		var heard []int
		resilience.Subscribe(&h, func(e resilience.RetryEvent) {
			time.Sleep(sec)
			heard = append(heard, e.Attempt)
		})
		start := time.Now()
		h.Emit(retryEvent(0))
		synctest.Wait() // the listener has it, the queue is empty
		for i := range 1500 {
			h.Emit(retryEvent(i + 1))
		}
		assert.Zero(t, time.Since(start), "emitting takes no time")
		assert.EqualValues(t, 1500-1024, h.Dropped())
		h.Close()
		assert.True(t, len(heard) == 1025 && heard[1024] == 1024, "%d events came, want the 1025 that fitted in, in order", len(heard))
	})
}

func TestHubListenersChangeWhileItTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h resilience.Hub
		var heard []string
		note := func(who string) func(resilience.Event) {
			return func(resilience.Event) { heard = append(heard, who) }
		}
		var offFirst, offSecond func()
		offFirst = h.Any(func(resilience.Event) {
			heard = append(heard, "first")
			offSecond()
			h.Any(note("third"))
			offFirst()
		})
		offSecond = h.Any(note("second"))
		h.Emit(retryEvent(1))
		synctest.Wait()
		h.Emit(retryEvent(2))
		h.Close()
		wantEqual(t, "heard", heard, []string{"first", "third"})
	})
}

func TestHubClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h resilience.Hub
		heard := 0
		off := h.Any(func(resilience.Event) {
			time.Sleep(sec)
			heard++
		})
		h.Emit(retryEvent(1))
		h.Emit(retryEvent(2))
		go h.Close() // a second one waits as well
		h.Close()
		assert.EqualValues(t, 2, heard)
		off()
		h.Any(func(resilience.Event) { t.Error("a closed hub told an event") })
		h.Emit(retryEvent(3))
		assert.False(t, h.Wants(), "Wants = true after Close")
	})
}

func TestNilHub(t *testing.T) {
	var h *resilience.Hub
	resilience.Subscribe(h, func(resilience.RetryEvent) { t.Error("a nil hub told an event") })()
	h.Emit(retryEvent(1))
	assert.True(t, !h.Wants() && h.Dropped() == 0 && h.Panics() == 0 && h.Close() == nil, "a nil hub has something to say")
}

// Everything at once; the race detector is the judge, and the count of what came.
func TestHubConcurrently(t *testing.T) {
	var h resilience.Hub
	var mu sync.Mutex
	heard := 0
	resilience.Subscribe(&h, func(resilience.RetryEvent) {
		mu.Lock()
		defer mu.Unlock()
		heard++
	})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				h.Emit(retryEvent(i))
				if i%50 == 0 {
					defer h.Any(func(resilience.Event) {})()
				}
			}
		})
	}
	wg.Wait()
	h.Close()
	assert.EqualValues(t, 2000, uint64(heard)+h.Dropped(), "%d came", heard)
}

// What goes wrong in the hub itself has a listener of its own. A listener that panics or exits takes its event along, and no
// other one.
func TestHubOnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h resilience.Hub
		var heard []error
		var mu sync.Mutex
		h.OnError(func(err error) {
			mu.Lock()
			heard = append(heard, err)
			mu.Unlock()
			panic("which is nobody's business")
		})
		hold, told := make(chan struct{}), []int{}
		resilience.Subscribe(&h, func(e resilience.RetryEvent) {
			switch e.Attempt {
			case 1:
				panic("listener")
			case 2:
				runtime.Goexit()
			case 3:
				<-hold
			}
		})
		resilience.Subscribe(&h, func(e resilience.RetryEvent) { told = append(told, e.Attempt) })
		for i := range 4 {
			h.Emit(retryEvent(i))
		}
		synctest.Wait()
		for range 1024 + 2 { // the queue, and two more
			h.Emit(retryEvent(4))
		}
		close(hold)
		synctest.Wait()
		h.OnError(nil)
		h.Emit(retryEvent(1))
		h.Close()
		var texts []string
		for _, err := range heard {
			texts = append(texts, err.Error())
		}
		wantEqual(t, "heard", texts, []string{
			"resilience: a listener panicked at a resilience.RetryEvent: listener",
			"resilience: a listener panicked at a resilience.RetryEvent: <nil>",
			resilience.ErrEventDropped.Error(), resilience.ErrEventDropped.Error(),
		})
		var first *resilience.ListenerError
		if !errors.As(heard[0], &first) || first.Event != retryEvent(1) || !errors.Is(heard[2], resilience.ErrEventDropped) {
			t.Errorf("heard %v, want what happened and at which event", heard)
		}
		assert.Equal(t, []uint64{2, 3}, []uint64{h.Dropped(), h.Panics()}, "they are counted too")
		wantEqual(t, "told", told[:4], []int{0, 1, 3, 4})
	})
	var none *resilience.Hub
	none.OnError(func(error) {})
}
