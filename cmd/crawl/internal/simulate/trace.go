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
	// sameRate is how far, as a share, the rate may move without a line of its own. A reader of the column notices no
	// less.
	sameRate = 0.2
	// longestLine is how much time a line covers at most: a quarter of an hour without events is fifteen lines.
	longestLine = time.Minute
	// shortestLine is how much time a line covers at least from the second minute on, when the search is over. So a
	// rate that swings for the rest of the run does not fill the trace.
	shortestLine = 5 * time.Second
)

// moment is a line of a trace: one or more seconds of a run. Its counts are for all of them. The names of its fields
// are stable, as those of tableJSON. A program that needs every second uses --every 1s.
type moment struct {
	From      float64         `json:"from_seconds"`        // seconds since the start of the run
	To        float64         `json:"to_seconds"`          // the From of the next line
	Capacity  float64         `json:"capacity_per_second"` // in the last second
	Rate      float64         `json:"rate_per_second"`     // planned at the end; zero if there is no plan
	Sent      int             `json:"sent"`                // to the host; the next three are parts of it
	Admitted  int             `json:"admitted"`
	Refused   int             `json:"refused"`
	Failed    int             `json:"failed"`
	Circuit   breaker.State   `json:"circuit"` // at the end, like the rest
	LimitedBy ratelimit.Limit `json:"limited_by"`
	Reason    string          `json:"reason"`
}

// thinner combines seconds to moments: it loses none, and puts those without changes into one moment.
type thinner struct {
	every time.Duration // length of each moment; zero means until something changes
	told  []moment

	pending moment // its To is where the last second ended; From equals To if it is empty
}

// add adds the next second of the run.
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

// news reports whether the pending moment is worth a line of its own. A continuing trickle of refusals and failures is
// not, but its effect on the rate is. A change of the host's capacity always is, in the second in which it happens.
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

// flush makes a line of the pending moment, unless it is empty.
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
	lines := thinner{every: o.Every, told: []moment{}} // not nil, which would be null in JSON
	run := simulate.Simulation{Scenario: scs[0], Config: cfgs[0].Config, Seed: o.Seed, OnSecond: lines.add}
	result, err := run.Run(ctx)
	stopped := err != nil && errors.Is(err, ctx.Err())
	if err != nil && !stopped {
		return err
	}
	lines.flush() // the last seconds
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

// traceColumns returns the table for people. It drops columns that say nothing: failures of a host that never fails,
// and a circuit that never opens.
func traceColumns(moments []moment) cli.Rows {
	table := cli.Columns("until", "host/s", "rate/s=-", "admitted/s", "refused", "failed=0", "<circuit=closed", "<reason")
	for i := range moments {
		m := &moments[i]
		rate := cli.OrUnknown(m.Rate > 0, perSecond(m.Rate)) // the oracle has no planned rate
		table.Row(cli.Seconds(m.To), perSecond(m.Capacity), rate, perSecond(float64(m.Admitted)/(m.To-m.From)),
			cli.Count(m.Refused), cli.Count(m.Failed), m.Circuit.String(), m.Reason)
	}
	return table
}

// perSecond returns a rate with a fitting number of digits: 0.25, 12.3, 140.
func perSecond(rps float64) string {
	switch {
	case rps == 0 || rps >= 99.95: // so that 99.95 is 100 and not 100.0
		return fmt.Sprintf("%.0f", rps)
	case rps >= 9.995:
		return fmt.Sprintf("%.1f", rps)
	}
	return fmt.Sprintf("%.2f", rps)
}

// traceJSON is one run. The names of its fields are stable, as those of tableJSON.
type traceJSON struct {
	scenarioJSON
	Strategy    string      `json:"strategy"`
	Seed        uint64      `json:"seed"`
	Interrupted bool        `json:"interrupted"` // the run did not reach its end
	Moments     []moment    `json:"moments"`     // without gaps, from the start
	Result      *resultJSON `json:"result"`      // null if it was interrupted
}
