package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// leaseAll leases all that may be leased at now, of at most so many slots.
func leaseAll(f *Frontier, now time.Time, slots int) (out []*Lease) {
	for slots > 0 {
		l, _ := f.Next(now)
		if l == nil {
			break
		}
		if !l.Extra() {
			slots--
		}
		out = append(out, l)
	}
	return out
}

func hostsOf(out []*Lease) map[string]int {
	n := map[string]int{}
	for _, l := range out {
		n[l.Host()]++
	}
	return n
}

// A host has one lease out until it has answered for something else than robots.txt.
func TestOneLeaseUntilTheFirstAnswer(t *testing.T) {
	robots := map[string]bool{}
	f := open(t, Config{PerHost: 3, Gate: gateFunc(func(u canonical.URL, _ time.Time) Verdict {
		if robots[u.Host()] {
			return Verdict{}
		}
		return Verdict{Pass: Ask}
	})})
	for i := range 9 {
		it := link(t, fmt.Sprintf("http://a.test/%d", i))
		require.Equal(t, Queued, f.Add(start, it, f.Fingerprint(&it)))
	}
	for _, kind := range []Kind{Robots, Page} {
		out := leaseAll(f, start, 9)
		require.Len(t, out, 1)
		require.Equal(t, kind, out[0].Kind)
		state, _ := f.Host(start, "a.test")
		require.Equal(t, "its first answer is awaited", state.Reason)
		robots["a.test"] = true
		end(f, start, out[0])
	}
	require.Len(t, leaseAll(f, start, 9), 3)
}

// A lease that waits gives its slot back as long as there are extra slots; its host takes no
// slot then, until it answers in time.
func TestOverdue(t *testing.T) {
	f := open(t, Config{Slots: 4, ExtraSlots: 3, PerHost: 2})
	for i := range 10 {
		add(t, f, start, fmt.Sprintf("http://late.test/%d", i), fmt.Sprintf("http://quick.test/%d", i))
	}
	for _, h := range f.hosts { // both have been quick so far
		h.answered = true
	}
	now := at(time.Second)
	out := leaseAll(f, start, 4)
	require.Equal(t, map[string]int{"late.test": 2, "quick.test": 2}, hostsOf(out))
	for _, l := range out {
		require.True(t, l.Waiting())
		if l.Host() == "late.test" {
			require.True(t, f.Overdue(now, l))
			require.True(t, f.Overdue(now, l), "it may be asked again")
			require.True(t, l.Extra())
		}
	}
	require.Empty(t, leaseAll(f, now, 2), "places aside count for the host")
	require.Equal(t, 2, f.extraOut)

	late := out[0]
	if late.Host() != "late.test" {
		late = out[1]
	}
	late.Answered()
	require.False(t, late.Waiting())
	end(f, at(5*time.Second), late)
	require.Equal(t, 1, f.extraOut)
	again := leaseAll(f, at(5*time.Second), 2)
	require.Len(t, again, 1)
	require.True(t, again[0].Extra(), "it is known to be late")
	end(f, at(5*time.Second), again[0]) // and has answered at once
	again = leaseAll(f, at(5*time.Second), 2)
	require.Len(t, again, 1)
	require.False(t, again[0].Extra())
}

// When there is no extra slot a lease keeps its slot, and hosts that are late wait for a
// place, or for one of the slots that slow hosts share.
func TestNoExtraSlot(t *testing.T) {
	const slots, aside = 4, 2
	f := open(t, Config{Slots: slots, ExtraSlots: aside, PerHost: 1})
	for i := range 6 {
		add(t, f, start, fmt.Sprintf("http://h%d.test/1", i), fmt.Sprintf("http://h%d.test/2", i))
	}
	out := leaseAll(f, start, slots)
	require.Len(t, out, slots/2, "hosts that have not answered share half of the slots")
	now := at(time.Second)
	for _, l := range out {
		require.True(t, f.Overdue(now, l))
	}
	more := leaseAll(f, now, slots)
	require.Len(t, more, slots/2)
	now = at(2 * time.Second)
	for _, l := range more {
		require.False(t, f.Overdue(now, l), "there is no place")
	}
	require.Empty(t, leaseAll(f, now, slots/2))

	end(f, now, out[0])
	late := leaseAll(f, now, slots/2)
	require.Equal(t, map[string]int{out[0].Host(): 1}, hostsOf(late), "it is late, and has a place")
	require.True(t, late[0].Extra())
	require.False(t, f.Overdue(now, more[0]))
	require.Equal(t, aside, f.extraOut)
	require.Equal(t, slots/2, f.slowOut)

	end(f, now, out[1])
	require.True(t, f.Overdue(now, more[0]), "nobody waits for the place")
	require.Empty(t, f.lines[classStalled])
	for len(more)+len(late) > 0 {
		for _, l := range append(more, late...) {
			end(f, now, l)
		}
		more, late = leaseAll(f, now, slots), nil
	}
	require.True(t, f.Empty())
	require.Zero(t, f.extraOut)
	require.Zero(t, f.slowOut)
}

// Places that become free go to hosts that are late and to leases that hold slots by turns.
func TestExtraSlotsByTurns(t *testing.T) {
	const slots, aside = 8, 4
	f := open(t, Config{Slots: slots, ExtraSlots: aside, PerHost: 1})
	for i := range 300 {
		add(t, f, start, fmt.Sprintf("http://h%d.test/1", i), fmt.Sprintf("http://h%d.test/2", i), fmt.Sprintf("http://h%d.test/3", i))
	}
	var out []*Lease
	first, later := 0, 0 // requests of hosts, each of which takes ten seconds
	for s := range 200 {
		now := at(time.Duration(s) * time.Second)
		held := 0
		for i := 0; i < len(out); i++ {
			l := out[i]
			switch age := now.Sub(l.at); {
			case age >= 10*time.Second:
				end(f, now, l)
				out = append(out[:i], out[i+1:]...)
				i--
				continue
			case age >= SlowAfter:
				f.Overdue(now, l)
			}
			if !l.Extra() {
				held++
			}
		}
		for _, l := range leaseAll(f, now, slots-held) {
			if l.Evidence.Number() == 1 {
				first++
			} else {
				later++
			}
			out = append(out, l)
		}
		require.LessOrEqual(t, f.extraOut, aside)
		require.LessOrEqual(t, f.slowOut, slots/2)
	}
	t.Logf("%d hosts were asked for the first time, %d again", first, later)
	require.Greater(t, first, 30)
	require.Greater(t, later, 30)
}
