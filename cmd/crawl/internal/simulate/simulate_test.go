package simulate

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/simulate"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// A comparison that was interrupted shows the rows that have results.
func TestTableOfWhatIsDone(t *testing.T) {
	done := simulate.Result{Steady: simulate.Span{Sent: 10, Admitted: 10, Capacity: 10}, First: simulate.Span{Sent: 4, Admitted: 2, Refused: 2, Capacity: 4}}
	rows := []simulate.Row{
		{Scenario: simulate.Scenario{Name: "mine", Doc: "admits everything, mine"}, Runs: [][]simulate.Result{{done}, nil}},
		{Scenario: simulate.Scenario{Name: "yours", Doc: "admits everything, yours"}, Runs: [][]simulate.Result{nil, nil}},
	}
	cfgs := simulate.Strategies("steer", "oracle")
	var b bytes.Buffer
	o := Options{Streams: cli.Streams{Out: &b}}
	require.NoError(t, o.writeTable(rows, cfgs, true))
	table, _, _ := strings.Cut(b.String(), "\n\n")
	require.Equal(t, ""+
		"scenario  steer 1st min  then   oracle 1st min  then  the host\n"+
		"mine      50/50          100/0  -               -     admits everything, mine", table)
	b.Reset()
	require.NoError(t, o.writeTableJSON(rows, cfgs, true))
	var doc tableJSON
	require.NoError(t, json.Unmarshal(b.Bytes(), &doc))
	require.True(t, doc.Interrupted)
	require.Len(t, doc.Scenarios, 2)
	require.Len(t, doc.Scenarios[0].Runs, 1)
	require.Empty(t, doc.Scenarios[1].Runs)
}

func second(i int, capacity, rate float64, refused int, state breaker.State) simulate.Second {
	return simulate.Second{
		At: time.Duration(i) * time.Second, Capacity: capacity,
		Span: simulate.Span{Sent: 10, Admitted: 10 - refused, Refused: refused, Capacity: capacity},
		Plan: ratelimit.DomainSnapshot{FillRate: rate, State: state},
	}
}

// ends returns the ends of the moments into which a thinner combines seconds.
func ends(every time.Duration, seconds []simulate.Second) []int {
	t := thinner{every: every}
	for _, s := range seconds {
		t.add(s)
	}
	t.flush()
	var to []int
	for _, m := range t.told {
		to = append(to, int(m.To))
	}
	return to
}

func TestTraceTellsWhatChanges(t *testing.T) {
	const last = 149
	steady := func(i int) simulate.Second { return second(i, 10, 10, 0, breaker.Closed) }
	changed := func(from, to int, change func(s *simulate.Second)) func(i int) simulate.Second {
		return func(i int) simulate.Second {
			s := steady(i)
			if i >= from && i <= to {
				change(&s)
			}
			return s
		}
	}
	refused := func(s *simulate.Second) { s.Admitted, s.Refused = 9, 1 }
	for name, c := range map[string]struct {
		at    func(i int) simulate.Second
		every time.Duration
		want  []int
	}{
		"nothing":    {steady, 0, []int{1, 61, 121, 150}},
		"every 50 s": {steady, 50 * time.Second, []int{50, 100, 150}},
		"the rate, by a fifth and by more": {changed(10, last, func(s *simulate.Second) {
			if s.Plan.FillRate = 12; s.At >= 20*time.Second {
				s.Plan.FillRate = 12.1
			}
		}), 0, []int{1, 21, 81, 141, 150}},
		"the circuit":                                   {changed(20, 20, func(s *simulate.Second) { s.Plan.State = breaker.Open }), 0, []int{1, 21, 22, 82, 142, 150}},
		"what holds the next request":                   {changed(70, last, func(s *simulate.Second) { s.Plan.LimitedBy = ratelimit.LimitRetryAfter }), 0, []int{1, 61, 71, 131, 150}},
		"trouble within a short line waits for its end": {changed(62, 62, refused), 0, []int{1, 61, 66, 126, 150}},
		"the host, at once at any time": {changed(100, 101, func(s *simulate.Second) {
			s.Capacity, s.Span.Capacity = s.At.Seconds(), s.At.Seconds()
		}), 0, []int{1, 61, 101, 102, 103, 150}},
		"refusals begin and go on": {changed(10, last, refused), 0, []int{1, 11, 71, 131, 150}},
		"a swing after the search": {changed(100, last, func(s *simulate.Second) {
			s.Plan.FillRate = 100 + math.Mod(s.At.Seconds(), 2)*900
		}), 0, []int{1, 61, 101, 106, 111, 116, 121, 126, 131, 136, 141, 146, 150}},
	} {
		var seconds []simulate.Second
		for i := range last + 1 {
			seconds = append(seconds, c.at(i))
		}
		require.Equal(t, c.want, ends(c.every, seconds), name)
	}
}

// However a run is thinned, each second is in exactly one moment.
func TestTraceLosesNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, every := range []time.Duration{0, time.Second, 7 * time.Second} {
		lines := thinner{every: every}
		var want, got simulate.Span
		const length = 1000
		for i := range length {
			s := second(i, float64(1+rnd.IntN(2)*rnd.IntN(2)), math.Exp(rnd.NormFloat64()/9), rnd.IntN(2)*rnd.IntN(3), breaker.State(rnd.IntN(20)/19))
			want.Admitted += s.Admitted
			want.Refused += s.Refused
			lines.add(s)
		}
		lines.flush()
		lines.flush() // has no effect
		at := 0.0
		for _, m := range lines.told {
			require.InDelta(t, at, m.From, 0)
			require.Greater(t, m.To, m.From)
			at = m.To
			got.Admitted += m.Admitted
			got.Refused += m.Refused
		}
		require.InDelta(t, length, at, 0)
		require.Equal(t, want, got)
		if every == time.Second {
			require.Len(t, lines.told, length)
		}
	}
}
