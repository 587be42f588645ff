package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

const (
	// incidentHosts is how many hosts are told about at length: the table has the rest.
	incidentHosts = 3
	// incidentEvents is how many events of each are told: the last pause, what brought it
	// and what ended it.
	incidentEvents = 4
)

// writeIncidents tells of the hosts that gave the most trouble why their rate is what it
// is, and what happened last.
func (r *Report) writeIncidents(b *strings.Builder) {
	hosts := worstHosts(r.Snap)
	groups := r.Snap.Limiter.GroupEvents
	groups = groups[max(len(groups)-incidentEvents, 0):]
	if len(hosts)+len(groups) == 0 { // nearly every crawl: no heading over nothing
		return
	}
	b.WriteString("\n")
	for _, e := range groups {
		r.wrapLines(b, fmt.Sprintf("%s: %s ago: %s\n", e.Domain, human.Seconds(r.Snap.Time.Sub(e.Time).Seconds()), e.Text))
	}
	for _, d := range hosts {
		var text strings.Builder
		name := human.Cut(cmp.Or(r.Names[d.Domain], d.Domain), longestHost(r.Columns))
		fmt.Fprintf(&text, "%s: %s\n", name, d.Reason)
		for _, e := range worthTelling(d.Events) {
			fmt.Fprintf(&text, "  %s ago: %s\n", human.Seconds(r.Snap.Time.Sub(e.Time).Seconds()), e.Text)
		}
		r.wrapLines(b, text.String())
	}
}

// worthTelling are the last events without those that the next one says as well: that a
// trial may go out, and the order to wait that came with a refusal.
func worthTelling(events []ratelimit.Event) []ratelimit.Event {
	var told []ratelimit.Event
	for i, e := range events {
		last := i == len(events)-1
		said := !last && (e.Cause == control.CauseHalfOpen || e.Cause == control.CauseRetryAfter && events[i+1].Time.Equal(e.Time))
		if !said {
			told = append(told, e)
		}
	}
	return told[max(len(told)-incidentEvents, 0):]
}

// worstHosts are the hosts with the most trouble, the worst first: those that are shut,
// then those with the most pauses and cuts of late.
func worstHosts(s *crawl.Snapshot) []*ratelimit.DomainSnapshot {
	var hosts []*ratelimit.DomainSnapshot
	for i := range s.Limiter.Top {
		if Incidents(&s.Limiter.Top[i]) > 0 {
			hosts = append(hosts, &s.Limiter.Top[i])
		}
	}
	slices.SortFunc(hosts, func(x, y *ratelimit.DomainSnapshot) int {
		return cmp.Or(cmp.Compare(Incidents(y), Incidents(x)), cmp.Compare(x.Domain, y.Domain))
	})
	return hosts[:min(len(hosts), incidentHosts)]
}

// Incidents is how many of the last events were bad ones; a shut circuit is worse than
// any number of them, and so is a quota that is used up. Retry-After counts by the refusal it came with, and Crawl-delay is
// a wish and no trouble.
func Incidents(d *ratelimit.DomainSnapshot) int {
	n := 0
	if d.State != breaker.Closed && len(d.Events) > 0 {
		n = len(d.Events) + 1
	}
	if d.LimitedBy == ratelimit.LimitQuota {
		n = len(d.Events) + 1
	}
	for _, e := range d.Events {
		switch e.Cause {
		case control.CauseRefused, control.CauseFailures, control.CauseForbidden, control.CauseLatency, control.CauseTrial:
			n++
		}
	}
	return n
}
