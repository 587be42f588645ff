package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/simulate"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

const traceLegend = `
A line sums up the time since the line above it: admitted/s is the mean, refused
and failed are counts. The rest is as at its end: host/s is what the host would
admit (and --max-rate allows), rate/s what is planned, the reason what holds the
next request back or sets the pace. Of several hosts at one address all figures are
of all together; circuit and reason are the first one's.
`

const (
	// sameRate is how far, as a share, the rate may move before it is worth a line: an eye that follows a column sees
	// no less.
	sameRate = 0.2
	// longestLine bounds how long nothing is said: a quarter of an hour in which nothing happens is fifteen lines.
	longestLine = time.Minute
	// shortestLine is from the second minute on, when the search is over: a rate that swings for the rest of the run
	// is told as a swing and not point by point.
	shortestLine = 5 * time.Second
)

// moment is a line of a trace: one or more seconds of a run, all counts being of all of them. It keeps the names of
// its fields as tableJSON does. A program that wants every second asks for --every 1s.
type moment struct {
	From      float64         `json:"from_seconds"`        // of the run
	To        float64         `json:"to_seconds"`          // where the next line begins
	Capacity  float64         `json:"capacity_per_second"` // of the last second
	Rate      float64         `json:"rate_per_second"`     // planned at the end; zero if there is no plan
	Sent      int             `json:"sent"`                // that reached the host, and so the next three
	Admitted  int             `json:"admitted"`
	Refused   int             `json:"refused"`
	Failed    int             `json:"failed"`
	Circuit   breaker.State   `json:"circuit"` // at the end, and so the rest
	LimitedBy ratelimit.Limit `json:"limited_by"`
	Reason    string          `json:"reason"`
}

// thinner makes moments of seconds: none is lost, and those in which nothing changes are told together.
type thinner struct {
	every time.Duration // length of all moments; zero means until something changes
	told  []moment

	pending moment // to is where the last second ended; from is to if there is none
}

// add takes the next second of the run.
func (t *thinner) add(s simulate.Second) {
	m := &t.pending
	m.To = (s.At + time.Second).Seconds()
	m.Sent += s.Sent
	m.Admitted += s.Admitted
	m.Refused += s.Refused
	m.Failed += s.Failed
	m.Capacity, m.Rate = s.Capacity, s.Plan.FillRate
	m.Circuit, m.LimitedBy, m.Reason = s.Plan.State, s.Plan.LimitedBy, s.Plan.Reason
	if m.To-m.From >= cmp.Or(t.every, longestLine).Seconds() || t.every == 0 && t.news() {
		t.flush()
	}
}

// news reports whether the moment up to now has something to tell. A trickle of refusals and failures is told once:
// what it does to the rate is news again. What the host does is told at once, and in the second in which it does it.
func (t *thinner) news() bool {
	if len(t.told) == 0 {
		return true
	}
	now, last := &t.pending, &t.told[len(t.told)-1]
	if now.Capacity != last.Capacity {
		return true
	}
	if last.To >= time.Minute.Seconds() && now.To-now.From < shortestLine.Seconds() {
		return false
	}
	return now.Circuit != last.Circuit || now.LimitedBy != last.LimitedBy || math.Abs(now.Rate-last.Rate) > sameRate*last.Rate ||
		now.Refused+now.Failed > 0 && last.Refused+last.Failed == 0
}

// flush tells what has not been told.
func (t *thinner) flush() {
	if now := t.pending; now.To > now.From {
		t.told = append(t.told, now)
		t.pending = moment{From: now.To, To: now.To}
	}
}

func (o *Options) runTrace(ctx context.Context, scs []simulate.Scenario, cfgs []simulate.Named) error {
	if len(scs) != 1 {
		return cli.Usagef("--trace shows one run: give a PATTERN for one scenario, such as S1a, and not %d", len(scs))
	}
	lines := thinner{every: o.Every, told: []moment{}} // null would be no list
	run := simulate.Simulation{Scenario: scs[0], Config: cfgs[0].Config, Seed: o.Seed, OnSecond: lines.add}
	result, err := run.Run(ctx)
	stopped := err != nil && errors.Is(err, ctx.Err())
	if err != nil && !stopped {
		return err
	}
	lines.flush() // the last seconds had no news
	if o.asJSON {
		doc := traceJSON{
			scenarioJSON: describeScenario(&run.Scenario), Strategy: run.Config.Strategy, Seed: run.Seed, Interrupted: stopped, Moments: lines.told,
		}
		if !stopped {
			doc.Result = new(describeResult(&result))
		}
		err = cli.WriteJSON(o.Out, doc)
	} else {
		var b strings.Builder
		fmt.Fprintf(&b, "%s under %s, seed %d: %s\n\n", run.Scenario.Name, run.Config.Strategy, run.Seed, run.Scenario.Doc)
		if len(lines.told) > 0 {
			cli.Layout(&b, traceColumns(lines.told), o.columns())
			b.WriteString(traceLegend)
		}
		if !stopped {
			b.WriteString("\n" + strings.Join(cli.Wrap("All in all: "+result.String()+".", cli.UsualWidth), "\n") + "\n")
		}
		_, err = io.WriteString(o.Out, b.String())
	}
	if err == nil && stopped {
		return o.interrupted("the run was %s long and would have been %s", cli.Seconds(lines.pending.To), cli.Seconds(run.Scenario.Length().Seconds()))
	}
	return cli.Output(err)
}

// traceColumns is the table for people. Columns that say nothing go: a host that never fails, a circuit that never
// opens.
func traceColumns(moments []moment) cli.Rows {
	table := cli.Columns("until", "host/s", "rate/s=-", "admitted/s", "refused", "failed=0", "<circuit=closed", "<reason")
	for i := range moments {
		m := &moments[i]
		rate := cli.OrUnknown(m.Rate > 0, perSecond(m.Rate)) // the one who knows the server has no rate
		table.Row(cli.Seconds(m.To), perSecond(m.Capacity), rate, perSecond(float64(m.Admitted)/(m.To-m.From)),
			cli.Count(m.Refused), cli.Count(m.Failed), m.Circuit.String(), m.Reason)
	}
	return table
}

// perSecond is a rate with the digits that tell it from another: 0.25, 12.3, 140.
func perSecond(rps float64) string {
	switch {
	case rps == 0 || rps >= 99.95: // what would be rounded to 100.0 is 100
		return fmt.Sprintf("%.0f", rps)
	case rps >= 9.995:
		return fmt.Sprintf("%.1f", rps)
	}
	return fmt.Sprintf("%.2f", rps)
}

// traceJSON is one run. It keeps the names of its fields as tableJSON does.
type traceJSON struct {
	scenarioJSON
	Strategy    string      `json:"strategy"`
	Seed        uint64      `json:"seed"`
	Interrupted bool        `json:"interrupted"` // it did not come to its end
	Moments     []moment    `json:"moments"`     // without gaps, from the beginning on
	Result      *resultJSON `json:"result"`      // null if it was interrupted
}
