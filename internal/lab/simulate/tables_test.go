package simulate

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/control/steer"
)

// What TestTables runs, and how often. The random hosts are those whose number three does not divide: the
// others are kept for final figures.
var (
	tables       = flag.String("tables", "", "print a table of steer: ablation, or sensitivity")
	tableSeeds   = flag.Int("tables.seeds", 2, "runs of each")
	tableRandom  = flag.Int("tables.random", 200, "random hosts, from 1 to this number")
	tableFastest = flag.Float64("tables.fastest", math.Inf(1), "hosts that admit more per second are left out: they take long")
	tableOnly    = flag.String("tables.only", "", "of these variants only, with commas between")
)

type score struct {
	used    map[string]float64 // by scenario
	refused map[string]float64
}

// of sums up the scenarios whose names begin with prefix.
func (s score) of(prefix string) (mean, tenth, refused float64) {
	var used []float64
	for name, u := range s.used {
		if strings.HasPrefix(name, prefix) {
			used, mean, refused = append(used, u), mean+u, refused+s.refused[name]
		}
	}
	n := float64(len(used))
	return mean / n, quantile(used, 0.1), refused / n
}

// most returns the scenarios that lose most against another score.
func (s score) most(than score) string {
	loss := func(name string) float64 {
		return than.used[name] - s.used[name] + 3*(s.refused[name]-than.refused[name])
	}
	var names []string
	for name := range s.used {
		if loss(name) >= 3 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(loss(b), loss(a)), strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.0f to %.0f", name, than.used[name], s.used[name])
		if worse := s.refused[name] - than.refused[name]; worse > 0.5 {
			names[i] += fmt.Sprintf(", %.1f refused", s.refused[name])
		}
	}
	return strings.Join(names[:min(len(names), 3)], "; ")
}

type variant struct {
	name   string
	tuning steer.Tuning
}

var parts = map[steer.Part]string{
	steer.Refill: "refill", steer.Windows: "windows", steer.Quotas: "told quotas", steer.Queues: "queues",
	steer.Connections: "connections", steer.Blocks: "blocks", steer.Health: "health", steer.Use: "use of the rate",
}

func ablations() (all []variant) {
	for part, name := range parts {
		t := steer.DefaultTuning
		t.Without = part
		all = append(all, variant{name, t})
	}
	slices.SortFunc(all, func(a, b variant) int { return strings.Compare(a.name, b.name) })
	return all
}

func sensitivities() (all []variant) {
	fields := reflect.TypeFor[steer.Tuning]()
	for i := range fields.NumField() {
		if fields.Field(i).Type.Kind() != reflect.Float64 {
			continue
		}
		for _, by := range []float64{0.5, 2} {
			t := steer.DefaultTuning
			field := reflect.ValueOf(&t).Elem().Field(i)
			field.SetFloat(by * field.Float())
			all = append(all, variant{fmt.Sprintf("%s %g", fields.Field(i).Name, field.Float()), t})
		}
	}
	return all
}

func (v variant) run(t *testing.T) score {
	t.Helper()
	cfg := Config(control.NameSteer)
	cfg.Tuning = &v.tuning
	columns := []Named{{Name: v.name, Config: cfg}}
	scs := Scenarios()
	for seed := range *tableRandom {
		if (seed+1)%3 != 0 {
			sc := Random(uint64(seed) + 1)
			sc.Name = fmt.Sprintf("R%d", seed+1)
			scs = append(scs, sc)
		}
	}
	scs = slices.DeleteFunc(scs, func(sc Scenario) bool { return sc.Capacity(0) > *tableFastest })
	rows, err := compare(scs, columns, *tableSeeds)
	require.NoError(t, err)
	s := score{map[string]float64{}, map[string]float64{}}
	for _, row := range rows {
		_, steady := sums(row.Runs[0])
		s.used[row.Scenario.Name], s.refused[row.Scenario.Name] = 100*min(1, steady.Utilisation()), 100*steady.RefusedShare()
	}
	return s
}

// TestTables prints what each estimator of steer gains, or what half and twice each of its constants do.
func TestTables(t *testing.T) {
	variants := map[string]func() []variant{"": nil, "ablation": ablations, "sensitivity": sensitivities}[*tables]
	if variants == nil {
		require.Empty(t, *tables)
		t.Skip("prints a table only: -tables ablation or -tables sensitivity")
	}
	row := func(name string, s score, most string) {
		used, _, refused := s.of("S")
		random, tenth, annoyed := s.of("R")
		fmt.Printf("| %s | %.1f / %.2f | %.1f / %.1f / %.2f | %s |\n", name, used, refused, random, tenth, annoyed, most)
	}
	base := variant{"nothing changed", steer.DefaultTuning}.run(t)
	fmt.Println("| | scenarios: used, refused | random: used, tenth percentile, refused | loses most at |\n|---|---|---|---|")
	row("nothing changed", base, "")
	for _, v := range variants() {
		if only := strings.Split(*tableOnly, ","); *tableOnly != "" && !slices.Contains(only, strings.Fields(v.name)[0]) {
			continue
		}
		s := v.run(t)
		row(v.name, s, s.most(base))
	}
}
