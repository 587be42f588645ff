package ratelimit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// groupNote is an event of a group: its members are paced as one from now on, or no
// longer.
type groupNote struct {
	at       clock.Instant
	cause    control.Cause
	name     string
	hosts    []string // what it rests on: those refused together, or the one refused alone; bounded by maxNotes
	members  int
	from, to rate // of all members together
}

// groupJournal are the last events of groups, each of which concerns many domains and is in
// the journal of none. The owner's lock guards it.
type groupJournal struct {
	notes     []groupNote // the last keptEvents, oldest first
	n         uint32      // ever noted
	reported  uint32      // of them, to OnEvent
	reporting bool        // someone tells, and will tell what comes meanwhile
}

func (n *groupJournal) note(g groupNote) {
	if len(n.notes) == keptEvents {
		n.notes = slices.Delete(n.notes, 0, 1)
	}
	n.notes = append(n.notes, g)
	n.n++
}

// unreported takes what nobody was told yet, as far as it is kept.
func (n *groupJournal) unreported() []groupNote {
	fresh := min(int(n.n-n.reported), len(n.notes))
	n.reported = n.n
	return slices.Clone(n.notes[len(n.notes)-fresh:])
}

// noteMerged notes that the members are paced as one, at a little less than was admitted of
// them. It is where the common controller goes first, from a lower rate.
func (g *group) noteMerged(now clock.Instant, admitted, to float64, refused map[*state]note) {
	hosts := make([]string, 0, len(refused))
	for s := range refused {
		hosts = append(hosts, s.domain)
	}
	slices.Sort(hosts)
	g.note(groupNote{at: now, cause: control.CauseMerged, hosts: hosts, from: rateOf(admitted), to: rateOf(to)})
}

// noteParted notes that the members go their own ways again: because one was refused
// alone, if by is not nil; because they got less together than before, if that is not zero;
// or because the common rate has long bounded nobody.
func (g *group) noteParted(now clock.Instant, by *state, before float64) {
	n := groupNote{at: now, cause: control.CauseParted, from: g.bucket.rate}
	if before > 0 {
		n.to = rateOf(before)
	}
	if by != nil {
		n.hosts = []string{by.domain}
	}
	g.note(n)
}

func (g *group) note(n groupNote) {
	n.name, n.members = g.key.String(), g.hosts
	h := &g.l.shared
	h.news.note(n)
	h.fresh.Store(true)
}

// reportGroups hands the events of groups to OnEvent with no lock held. One goroutine at a
// time does that, and takes along what others note meanwhile, so that the order is kept.
func (l *AdaptiveRateLimiter) reportGroups() {
	h := &l.shared
	for again := false; ; again = true {
		h.mu.Lock()
		if h.news.reporting && !again {
			h.mu.Unlock()
			return
		}
		h.fresh.Store(false)
		list := h.news.unreported()
		h.news.reporting = len(list) > 0
		h.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for i := range list {
			l.cfg.OnEvent(l.groupEventOf(&list[i]))
		}
	}
}

// groupEvents are the last events of groups, the oldest first.
func (l *AdaptiveRateLimiter) groupEvents() []Event {
	l.shared.mu.Lock()
	notes := slices.Clone(l.shared.news.notes)
	l.shared.mu.Unlock()
	events := make([]Event, len(notes))
	for i := range notes {
		events[i] = l.groupEventOf(&notes[i])
	}
	return events
}

// groupEventOf is the note as the world sees it. It stands under the name of the group.
func (l *AdaptiveRateLimiter) groupEventOf(n *groupNote) Event {
	return Event{
		Time: l.timeOf(n.at).UTC().Truncate(time.Millisecond), Domain: n.name, Cause: n.cause, State: breaker.Closed,
		FromRPS: figures(float32(n.from.rps())), ToRPS: figures(float32(n.to.rps())), Hosts: n.hosts, Text: n.text(),
	}
}

func (n *groupNote) text() string {
	if n.cause == control.CauseMerged {
		return fmt.Sprintf("%d hosts at this address are limited as one and paced together, at about %.3g/s for all: %s were refused at the same times, and a trial showed that one may go faster while the others go slower",
			n.members, n.to.rps(), someOf(n.hosts))
	}
	why := "the common rate has long bounded nobody"
	switch {
	case n.to > 0:
		why = fmt.Sprintf("together they got less than the %.3g/s that they had got each for itself", n.to.rps())
	case len(n.hosts) > 0:
		why = n.hosts[0] + " was refused again and again while the others were served"
	}
	return fmt.Sprintf("%d hosts at this address are paced one by one again: %s", n.members, why)
}

// named is how many hosts a sentence names: more are counted.
const named = 3

func someOf(hosts []string) string {
	if len(hosts) > named+1 {
		return fmt.Sprintf("%s and %d others", strings.Join(hosts[:named], ", "), len(hosts)-named)
	}
	if len(hosts) < 2 {
		return strings.Join(hosts, "")
	}
	return strings.Join(hosts[:len(hosts)-1], ", ") + " and " + hosts[len(hosts)-1]
}
