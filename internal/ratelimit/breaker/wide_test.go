package breaker_test

import (
	"math"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// With one slot the wide breaker is the narrow one.
func TestWideWithOneSlot(t *testing.T) {
	for _, slots := range []int{-1, 0, 1} {
		b := breaker.NewWide(config(t), slots)
		run(t, &b, append(append([]step{}, trip...),
			step{14, "allow a", halfOpen, false},
			step{17.5, "deny 18", halfOpen, false},
			step{18, "allow b", halfOpen, false},
			step{19, "drop a", halfOpen, false}, // not a's slot any more
			step{19, "deny 22", halfOpen, false},
			step{20, "ok a", halfOpen, false}, // late, yet a verdict
			step{20, "deny 22", halfOpen, false},
			step{21, "ok b", closed, true},
		))
	}
}

func TestWideLendsEachSlotAgain(t *testing.T) {
	b := breaker.NewWide(config(t), 2)
	run(t, &b, append(append([]step{}, trip...),
		step{14, "allow a", halfOpen, false},
		step{15, "allow b", halfOpen, false},
		step{15, "deny 18", halfOpen, false},
		step{16, "drop b", halfOpen, false},
		step{16, "allow c", halfOpen, false},
		step{18, "allow d", halfOpen, false}, // a is lost
		step{18, "deny 20", halfOpen, false},
		step{19, "drop a", halfOpen, false},
		step{19, "deny 20", halfOpen, false},
		step{19, "fail d", open, true},
		step{20, "ok c", open, false},
		step{29, "allow e", halfOpen, false},
		step{29, "allow f", halfOpen, false}, // no slot is taken over from the last time
		step{30, "ok e", halfOpen, false},
		step{30, "ok f", closed, true},
	))
}

func TestSetOpenFor(t *testing.T) {
	b := breaker.NewWide(config(t), 1)
	b.SetOpenFor(time.Hour) // not open
	run(t, &b, append(append([]step{}, trip...), step{5, "deny 14", open, false}))
	b.SetOpenFor(2 * time.Second)
	if until, ok := b.Until(); !ok || until != at(6) {
		t.Errorf("Until = %v, %v, want 6s", until, ok)
	}
	run(t, &b, []step{{5.5, "deny 6", open, false}, {6, "fail", open, true}, {6, "deny 16", open, false}})
	b.SetOpenFor(-1)
	run(t, &b, []step{{6, "fail", open, true}})
	b.SetOpenFor(math.MaxInt64)
	if got := b.State(math.MaxInt64 - 1); got != open {
		t.Errorf("State at the end of time = %v, want open", got)
	}
	narrow := breaker.New(config(t))
	narrow.Trip(at(1))
	narrow.SetOpenFor(time.Hour)
	if until, _ := narrow.Until(); until != at(11) {
		t.Errorf("Until of a breaker that is not wide = %v, want 11s", until)
	}
}

// A ticket made of the generation is the one that Allow would give.
func TestTicketOf(t *testing.T) {
	b := breaker.NewWide(config(t), 1)
	ticket, _, _ := b.Allow(0)
	if got := breaker.TicketOf(b.Generation()); got != ticket {
		t.Errorf("TicketOf = %v, want %v", got, ticket)
	}
	if !b.Counts(ticket) {
		t.Error("Counts of a ticket of this generation = false, want true")
	}
	b.Trip(clock.Instant(1))
	if b.Counts(ticket) {
		t.Error("Counts of a ticket from before the trip = true, want false")
	}
}
