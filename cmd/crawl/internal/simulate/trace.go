package simulate

import (
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

// traceLegend says what the columns are.
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

// moment is a line of a trace: one or more seconds of a run. Counts are of all of them, the plan is that of their
// end.
type moment struct {
	from, to time.Duration
	simulate.Span
	capacity float64 // of the last second, per second
	plan     ratelimit.DomainSnapshot
}

// thinner makes moments of seconds: none is lost, and those in which nothing changes are told together.
type thinner struct {
	every time.Duration // length of all moments; zero means until something changes
	tell  func(moment)

	pending moment // to is where the last second ended; from is to if there is none
	last    moment // told
}

// add takes the next second of the run.
func (t *thinner) add(s *simulate.Second) {
	t.pending.take(s)
	long := longestLine
	if t.every > 0 {
		long = t.every
	}
	if t.pending.to-t.pending.from >= long || t.every == 0 && t.news() {
		t.flush()
	}
}

// news reports whether the moment up to now has something to tell. A trickle of refusals and failures is told once:
// what it does to the rate is news again. What the host does is told at once, and in the second in which it does it.
func (t *thinner) news() bool {
	now, last := &t.pending, &t.last
	if last.to == 0 || now.capacity != last.capacity {
		return true
	}
	if last.to >= time.Minute && now.to-now.from < shortestLine {
		return false
	}
	troubled := now.Refused+now.Failed > 0
	return now.plan.State != last.plan.State ||
		now.plan.LimitedBy != last.plan.LimitedBy ||
		math.Abs(now.plan.FillRate-last.plan.FillRate) > sameRate*last.plan.FillRate ||
		troubled && last.Refused+last.Failed == 0
}

// flush tells what has not been told.
func (t *thinner) flush() {
	if t.pending.to == t.pending.from {
		return
	}
	t.last = t.pending
	t.pending = moment{from: t.last.to, to: t.last.to}
	t.tell(t.last)
}

// take adds a second, which must be the one that follows.
func (m *moment) take(s *simulate.Second) {
	m.to = s.At + time.Second
	m.Sent += s.Sent
	m.Admitted += s.Admitted
	m.Refused += s.Refused
	m.Failed += s.Failed
	m.Capacity += s.Span.Capacity
	m.capacity, m.plan = s.Capacity, s.Plan
}

// runTrace shows one run as it went.
func (o *Options) runTrace(ctx context.Context, scs []simulate.Scenario, cfgs []simulate.Named) error {
	if len(scs) != 1 {
		return cli.Usagef("--trace shows one run: give a PATTERN for one scenario, such as S1a, and not %d", len(scs))
	}
	var told []moment
	lines := thinner{every: o.Every, tell: func(m moment) { told = append(told, m) }}
	run := simulate.Simulation{
		Scenario: scs[0], Config: cfgs[0].Config, Seed: o.Seed,
		OnSecond: func(s simulate.Second) { lines.add(&s) },
	}
	result, err := run.Run(ctx)
	stopped := err != nil && errors.Is(err, ctx.Err())
	if err != nil && !stopped {
		return err
	}
	lines.flush() // the last seconds had no news
	t := trace{run: &run, moments: told, result: &result}
	if stopped {
		t.result = nil
	}
	write := t.write
	if o.asJSON {
		write = t.writeJSON
	}
	if err := cli.Output(write(o.Out, o.columns())); err != nil {
		return err
	}
	if stopped {
		return o.interrupted("the run was %s long and would have been %s", cli.Seconds(t.reached().Seconds()), cli.Seconds(run.Scenario.Length().Seconds()))
	}
	return nil
}

// trace is a run and what is told of it.
type trace struct {
	run     *simulate.Simulation
	moments []moment
	result  *simulate.Result // nil if the run did not end
}

// reached is how far it came.
func (t *trace) reached() time.Duration {
	if len(t.moments) == 0 {
		return 0
	}
	return t.moments[len(t.moments)-1].to
}

// write is for people.
func (t *trace) write(w io.Writer, columns int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s under %s, seed %d: %s\n\n", t.run.Scenario.Name, t.run.Config.Strategy, t.run.Seed, t.run.Scenario.Doc)
	// Columns that say nothing go: a host that never fails, a circuit that never opens.
	table := cli.Rows{
		{Title: "until"},
		{Title: "host/s"},
		{Title: "rate/s", Dull: cli.Unknown},
		{Title: "admitted/s"},
		{Title: "refused"},
		{Title: "failed", Dull: "0"},
		{Title: "circuit", Left: true, Dull: breaker.Closed.String()},
		{Title: "reason", Left: true},
	}
	for i := range t.moments {
		m := &t.moments[i]
		rate := cli.OrUnknown(m.plan.FillRate > 0, perSecond(m.plan.FillRate)) // the one who knows the server has no rate
		admitted := perSecond(float64(m.Admitted) / (m.to - m.from).Seconds())
		table.Row(cli.Seconds(m.to.Seconds()), perSecond(m.capacity), rate, admitted,
			cli.Count(m.Refused), cli.Count(m.Failed), m.plan.State.String(), m.plan.Reason)
	}
	if len(t.moments) > 0 {
		cli.Layout(&b, table, columns)
		b.WriteString(traceLegend)
	}
	if t.result != nil {
		b.WriteString("\n" + strings.Join(cli.Wrap("All in all: "+t.result.String()+".", cli.UsualWidth), "\n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
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

// writeJSON is for programs: the same moments, and all that the engine says of each.
func (t *trace) writeJSON(w io.Writer, _ int) error {
	doc := traceJSON{
		scenarioJSON: describeScenario(&t.run.Scenario), Strategy: t.run.Config.Strategy, Seed: t.run.Seed,
		Interrupted: t.result == nil, Moments: make([]momentJSON, len(t.moments)),
	}
	for i := range t.moments {
		m := &t.moments[i]
		doc.Moments[i] = momentJSON{
			From: m.from.Seconds(), To: m.to.Seconds(), Capacity: m.capacity, Rate: m.plan.FillRate,
			Sent: m.Sent, Admitted: m.Admitted, Refused: m.Refused, Failed: m.Failed,
			Circuit: m.plan.State, LimitedBy: m.plan.LimitedBy, Reason: m.plan.Reason,
		}
	}
	if t.result != nil {
		doc.Result = new(describeResult(t.result))
	}
	return cli.WriteJSON(w, doc)
}

// traceJSON is one run. It keeps the names of its fields as tableJSON does.
type traceJSON struct {
	scenarioJSON
	Strategy    string       `json:"strategy"`
	Seed        uint64       `json:"seed"`
	Interrupted bool         `json:"interrupted"` // it did not come to its end
	Moments     []momentJSON `json:"moments"`     // without gaps, from the beginning on
	Result      *resultJSON  `json:"result"`      // null if it was interrupted
}

// momentJSON is a line. A program that wants every second asks for --every 1s.
type momentJSON struct {
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
