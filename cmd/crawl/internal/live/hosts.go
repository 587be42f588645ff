package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/report"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console"
	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// hostRow is what frontier and limiter know of a host.
type hostRow struct {
	host    frontier.HostState
	limiter *ratelimit.DomainSnapshot // nil if it is not among those used last
	state   dashboard.State
	partial bool // the frontier was not asked: pages and queue are not known
}

// rows are the hosts of the snapshot: those with the longest queues, and those that were
// used last, which may have none any more.
func (p *picture) rows() []hostRow {
	s := p.snap
	rows := make([]hostRow, 0, len(s.Hosts)+len(s.Limiter.Top))
	listed := make(map[string]bool, len(s.Hosts))
	add := func(h frontier.HostState, d *ratelimit.DomainSnapshot, partial bool) {
		circuit := breaker.Closed
		if d != nil {
			circuit = d.State
		}
		rows = append(rows, hostRow{h, d, console.StateOf(&h, circuit), partial})
	}
	for i := range s.Hosts {
		listed[s.Hosts[i].Host] = true
		add(s.Hosts[i], limitOf(s, s.Hosts[i].Host), false)
	}
	for i := range s.Limiter.Top {
		if d := &s.Limiter.Top[i]; !listed[d.Domain] {
			add(frontier.HostState{Host: d.Domain, InFlight: d.InFlight}, d, len(s.Hosts) < int(s.Frontier.Hosts))
		}
	}
	return rows
}

// busiest are the hosts in the order that was chosen.
func (p *picture) busiest() []hostRow {
	rows := p.rows()
	rate := func(r *hostRow) float64 {
		if r.limiter == nil {
			return 0
		}
		return r.limiter.FillRate
	}
	slices.SortStableFunc(rows, func(x, y hostRow) int {
		order := 0
		switch p.order {
		case byAsked:
			order = cmp.Or(cmp.Compare(p.history.busy(y.host.Host), p.history.busy(x.host.Host)), cmp.Compare(y.host.InFlight, x.host.InFlight))
		case byQueue:
			order = cmp.Compare(y.host.Queued, x.host.Queued)
		case byRate:
			order = cmp.Compare(rate(&y), rate(&x))
		}
		return cmp.Or(order, cmp.Compare(p.name(&x), p.name(&y)))
	})
	return rows
}

// inTrouble are the hosts that refuse, fail, or did of late, the worst first.
func (p *picture) inTrouble() []hostRow {
	rank := func(r *hostRow) int {
		n := r.host.Failures
		if r.limiter != nil {
			n += report.Incidents(r.limiter)
		}
		switch r.state {
		case dashboard.Failing:
			return 3000 + min(n, 999)
		case dashboard.Refusing:
			return 2000 + min(n, 999)
		case dashboard.Blocked:
			return 1000 + min(n, 999)
		}
		return min(n, 999)
	}
	rows := slices.DeleteFunc(p.rows(), func(r hostRow) bool { return rank(&r) == 0 })
	slices.SortStableFunc(rows, func(x, y hostRow) int {
		return cmp.Or(cmp.Compare(rank(&y), rank(&x)), cmp.Compare(p.name(&x), p.name(&y)))
	})
	return rows
}

// name is what to call a host.
func (p *picture) name(r *hostRow) string { return cmp.Or(p.names[r.host.Host], r.host.Host) }

const (
	// leastName is how narrow the names of hosts may be cut.
	leastName = 14
	// narrow is a screen on which reasons are cut, so that figures stand beside them.
	narrow = 100
)

// table is a title and a line for each of the first rows.
func (p *picture) table(columns, room int, title string, rows []hostRow, none string) []string {
	if room < 2 {
		return nil
	}
	lines := []string{}
	if room > 4 { // a small screen has no line for air, nor for a title
		lines = append(lines, "", p.show(styleHead, human.Cut(title, columns)))
	}
	if len(rows) == 0 {
		return append(lines, human.Cut(none, columns))
	}
	shown := rows[:min(len(rows), room-len(lines)-1)]
	var b strings.Builder
	human.Layout(&b, p.columns(shown, columns), columns)
	for i, line := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n") {
		how := styleDim // the titles of the columns
		if i > 0 {
			how = styleOf(shown[i-1].state)
		}
		lines = append(lines, p.show(how, human.Cut(line, columns)))
	}
	return lines
}

// styleOf is how a host stands out.
func styleOf(s dashboard.State) style {
	switch s {
	case dashboard.Failing:
		return styleBad
	case dashboard.Refusing, dashboard.Blocked:
		return styleWarn
	case dashboard.Idle:
		return styleDim
	}
	return styleNone
}

// columns are those of a table of hosts. As in the report, what a host is known by and what
// limits it are left out last.
func (p *picture) columns(rows []hostRow, screen int) human.Rows {
	t := human.Rows{
		{Title: "host", Left: true},
		{Title: "state", Left: true, Keep: 5},
		{Title: "URLs", Keep: 2},
		{Title: "queued", Keep: 6},
		{Title: "active", Keep: 1},
		{Title: "rate/s", Keep: 7},
		{Title: "max/s", Keep: 3},
		{Title: "trend", Left: true, Keep: 4},
		{Title: "limited by", Left: true},
	}
	longest, trendRoom := min(max(screen/5, leastName), 40), min(screen/8, 16)
	for i := range rows {
		r := &rows[i]
		rate, most, trend := human.Unknown, human.Unknown, ""
		if d := r.limiter; d != nil {
			rate, most = rateCell(d.FillRate), rateCell(d.CeilingRPS)
		}
		if way := p.history.trails[r.host.Host]; way != nil {
			trend = sparkline(way.rates, trendRoom)
		}
		reason := human.Tame(report.Waiting(p.snap, &r.host, r.limiter))
		if screen < narrow {
			reason = human.Cut(reason, max(3*screen/10, human.LeastProse))
		}
		state, pages, queued := string(r.state), human.Count(r.host.Pages), human.Count(r.host.Queued)
		if r.partial {
			pages, queued = human.Unknown, human.Unknown
			if r.state == dashboard.Idle {
				state = human.Unknown
			}
		}
		t.Row(
			human.Cut(human.Tame(p.name(r)), longest), state, pages, queued, human.Count(r.host.InFlight),
			rate, most, trend, reason,
		)
	}
	return t
}

// rateCell is a rate with as many digits as say something.
func rateCell(rate float64) string {
	switch {
	case rate <= 0:
		return human.Unknown
	case rate < 0.1:
		return fmt.Sprintf("%.3f", rate)
	case rate < 100:
		return fmt.Sprintf("%.2f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
