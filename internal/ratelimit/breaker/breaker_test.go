package breaker_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

func config(t *testing.T) *breaker.Config {
	t.Helper()
	c := &breaker.Config{OpenFor: 10 * time.Second, ProbeTimeout: 4 * time.Second}
	require.NoError(t, c.Validate())
	return c
}

func at(seconds float64) clock.Instant { return clock.Instant(seconds * float64(time.Second)) }

type step struct {
	at     float64
	do     string // "ok", "fail": a whole call; "allow a", "ok a", "fail a", "drop a": ticket a; "deny 14": refused until 14 s
	state  breaker.State
	change bool
}

// run returns the tickets it was allowed, by their names.
func run(t *testing.T, b *breaker.Breaker, steps []step) map[string]breaker.Ticket {
	t.Helper()
	tickets := map[string]breaker.Ticket{}
	for i, s := range steps {
		verb, name, _ := strings.Cut(s.do, " ")
		now, change := at(s.at), false
		retryAt, ready := b.Ready(now)
		switch {
		case verb == "deny":
			want, _ := time.ParseDuration(name + "s")
			_, got, allowed := b.Allow(now)
			if allowed || got != clock.Instant(want) || ready || retryAt != got {
				t.Fatalf("step %d at %vs: Allow = %v until %v, want a refusal until %v", i, s.at, allowed, got, want)
			}
		case verb == "drop":
			b.Drop(tickets[name])
		case verb == "allow" || name == "":
			ticket, _, allowed := b.Allow(now)
			if !allowed || !ready {
				t.Fatalf("step %d at %vs: refused, want a ticket", i, s.at)
			}
			if (ticket.Number() != 0) != (b.State(now) == breaker.HalfOpen) {
				t.Fatalf("step %d at %vs: Probe = %v in state %v", i, s.at, (ticket.Number() != 0), b.State(now))
			}
			if tickets[name] = ticket; verb == "allow" {
				break
			}
			fallthrough
		default:
			change = b.Record(now, tickets[name], verb == "fail", 0, 0)
		}
		if got := b.State(now); got != s.state || change != s.change {
			t.Fatalf("step %d, %q at %vs: %v, changed %v, want %v, %v", i, s.do, s.at, got, change, s.state, s.change)
		}
	}
	return tickets
}

const (
	closed   = breaker.Closed
	open     = breaker.Open
	halfOpen = breaker.HalfOpen
)

// trip opens at 4 s: five failures in a row, one a second.
var trip = []step{
	{0, "fail", closed, false},
	{1, "fail", closed, false},
	{2, "fail", closed, false},
	{3, "fail", closed, false},
	{4, "fail", open, true},
}

func TestTransitions(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"open until its time is over", []step{
			{4, "deny 14", open, false},
			{13.999999, "deny 14", open, false},
			{14, "ok", halfOpen, false},
			{15, "ok", closed, true},
			{16, "fail", closed, false},
		}},
		{"first failure opens again, for the whole time", []step{
			{14, "ok", halfOpen, false},
			{15, "fail", open, true},
			{24, "deny 25", open, false},
			{25, "ok", halfOpen, false},
			{25, "ok", closed, true},
		}},
		{"one probe at a time", []step{
			{14, "allow a", halfOpen, false},
			{15, "deny 18", halfOpen, false},
			{16, "ok a", halfOpen, false},
			{16, "allow b", halfOpen, false},
			{17, "ok b", closed, true},
		}},
		{"a dropped probe frees its slot and gives no verdict", []step{
			{14, "allow a", halfOpen, false},
			{15, "drop a", halfOpen, false},
			{15, "drop a", halfOpen, false},
			{15, "ok", halfOpen, false},
			{15, "ok", closed, true},
		}},
		{"a probe that never comes back is lost", []step{
			{14, "allow a", halfOpen, false},
			{17.999999, "deny 18", halfOpen, false},
			{18, "allow b", halfOpen, false},
			{19, "deny 22", halfOpen, false},
			{19, "drop a", halfOpen, false}, // not a's slot any more
			{19, "deny 22", halfOpen, false},
			{20, "ok a", halfOpen, false}, // late, yet a verdict; b's slot stays b's
			{20, "deny 22", halfOpen, false},
			{21, "ok b", closed, true},
		}},
		{"a lost probe that failed opens", []step{
			{14, "allow a", halfOpen, false},
			{18, "allow b", halfOpen, false},
			{19, "fail a", open, true},
			{20, "ok b", open, false},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := breaker.New(config(t))
			run(t, &b, append(append([]step{}, trip...), tc.steps...))
		})
	}
}

func TestSuccessStartsTheCountAgain(t *testing.T) {
	b := breaker.New(config(t))
	run(t, &b, append(trip[:4:4], step{4, "ok", closed, false}, step{5, "fail", closed, false}))
	run(t, &b, trip[:3])
	require.EqualValues(t, 4, b.Consecutive())
}

// A call from before the trip ends in each later state, and counts in none.
func TestLateResultsByTicket(t *testing.T) {
	b := breaker.New(config(t))
	old := run(t, &b, append([]step{{0, "allow old", closed, false}}, trip...))["old"]
	for _, s := range []step{
		{5, "deny 14", open, false},
		{14, "allow probe", halfOpen, false},
		{20, "ok", halfOpen, false},
		{20, "ok", closed, true},
	} {
		run(t, &b, []step{s})
		for _, failed := range []bool{true, false} {
			if b.Record(at(s.at), old, failed, 1, 100) || b.State(at(s.at)) != s.state {
				t.Errorf("at %vs a late result (failed %v) moved the breaker to %v", s.at, failed, b.State(at(s.at)))
			}
		}
	}
}

func TestTicketAt(t *testing.T) {
	b := breaker.New(config(t))
	want := func(sent float64, ok, probe bool) {
		t.Helper()
		ticket, got := b.TicketAt(at(sent))
		if got != ok || (ticket.Number() != 0) != probe {
			t.Errorf("TicketAt(%vs) = %v, probe %v, want %v, %v", sent, got, (ticket.Number() != 0), ok, probe)
		}
	}
	want(-1000, true, false)
	run(t, &b, trip)
	want(3, false, false)
	want(4, false, false)
	want(5, false, false)
	run(t, &b, []step{{14, "allow a", halfOpen, false}})
	want(13, false, false)
	want(14, true, true)
	want(15, true, true)
	run(t, &b, []step{{18, "allow b", halfOpen, false}})
	want(17, true, false) // the lost one's: a verdict without a slot
	want(18, true, true)
	ticket, _ := b.TicketAt(at(18))
	b.Record(at(19), ticket, false, 0, 0)
	run(t, &b, []step{{19, "ok", closed, true}})
	want(18, false, false)
	want(19, true, false)
}

func TestErrorRate(t *testing.T) {
	for _, tc := range []struct {
		rate    float64
		samples int
		want    breaker.State
	}{
		{0.5, 10, open},
		{0.5, 9, closed},
		{0.499, 1000, closed},
		{1, 9, closed},
		{1, 10, open},
	} {
		b := breaker.New(config(t))
		ticket, _, _ := b.Allow(0)
		b.Record(0, ticket, false, tc.rate, tc.samples)
		require.EqualValues(t, tc.want, b.State(0), "%+v", tc)
	}
}

func TestTrip(t *testing.T) {
	b := breaker.New(config(t))
	b.Trip(at(-5)) // as if it had opened before it was made
	run(t, &b, []step{{4, "deny 5", open, false}, {5, "ok", halfOpen, false}})
	if until, ok := b.Until(); ok {
		t.Errorf("Until of a half-open breaker = %v, want none", until)
	}
	b.Trip(at(6))
	if until, ok := b.Until(); !ok || until != at(16) {
		t.Errorf("Until = %v, %v, want 16s", until, ok)
	}
}

func TestValidate(t *testing.T) {
	var c breaker.Config
	require.NoError(t, c.Validate())
	if want := (breaker.Config{0.5, 10, 5, 15 * time.Second, 2, 15 * time.Second}); c != want {
		t.Errorf("defaults = %+v, want %+v", c, want)
	}
	for _, bad := range []breaker.Config{
		{ErrorRate: -1},
		{ErrorRate: 1.01},
		{MinSamples: -1},
		{Consecutive: -1},
		{OpenFor: -1},
		{Probes: -1},
		{Probes: 65536},
		{ProbeTimeout: -1},
	} {
		was := bad
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("Validate(%+v) = %v, want an error that says what to do", was, err)
		}
	}
}

func TestStatesReadBack(t *testing.T) {
	for s := breaker.Closed; s <= breaker.HalfOpen; s++ {
		text, err := json.Marshal(s)
		require.NoError(t, err)
		var back breaker.State
		if err := json.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%s reads back as %v, %v, want %v", text, back, err, s)
		}
	}
	var s breaker.State
	if err := s.UnmarshalText([]byte("ajar")); err == nil {
		t.Error("UnmarshalText(ajar) = nil, want an error")
	}
}

// Whatever happens: never two probes out within ProbeTimeout, nothing allowed while
// open, and from any state the breaker lets somebody pass again by itself.
func TestNeverStuck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &breaker.Config{OpenFor: 10, ProbeTimeout: 5, Consecutive: 2}
		require.NoError(t, c.Validate())
		b := breaker.New(c)
		now := clock.Instant(0)
		var tickets []breaker.Ticket
		lastProbe := clock.Instant(-1000)
		settled := true // the last probe has ended
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += clock.Instant(rapid.IntRange(0, 12).Draw(t, "pass"))
			was := b.State(now)
			ticket, retryAt, ok := b.Allow(now)
			switch {
			case ok && was == breaker.Open:
				t.Fatalf("allowed while open")
			case ok && ticket.Number() != 0 && !settled && now < lastProbe+5:
				t.Fatalf("a second probe at %d, the first went out at %d", now, lastProbe)
			case !ok && retryAt <= now:
				t.Fatalf("refused at %d until %d", now, retryAt)
			case ok:
				tickets = append(tickets, ticket)
				if ticket.Number() != 0 {
					lastProbe, settled = now, false
				}
			}
			if len(tickets) > 0 && rapid.Bool().Draw(t, "end") {
				i := rapid.IntRange(0, len(tickets)-1).Draw(t, "which")
				if i == len(tickets)-1 && tickets[i].Number() != 0 {
					settled = true
				}
				if rapid.Bool().Draw(t, "verdict") {
					settled = b.Record(now, tickets[i], rapid.Bool().Draw(t, "failed"), 0, 0) || settled
				} else {
					b.Drop(tickets[i])
				}
				tickets = append(tickets[:i], tickets[i+1:]...)
			}
		}
		if _, ok := b.Ready(now + 10); !ok {
			t.Fatalf("stuck in %v", b.State(now+10))
		}
	})
}
