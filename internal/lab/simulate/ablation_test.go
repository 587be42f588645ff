package simulate

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table "What each part buys" of package control is renewed by
//
//	go test ./internal/lab/simulate -run TestAblation -ablation . -v -timeout 0
var (
	ablated       = flag.String("ablation", "", "print what steer does without the parts whose names contain `text`; . for all")
	ablatedRandom = flag.Int("ablation.random", 64, "random limiters in each run")
	ablatedSeeds  = flag.Int("ablation.seeds", 2, "seeds of each scenario")
)

// ablation is a part of package control that is switched off, or put back to what one would
// do without it, by other text in its source.
type ablation struct {
	part string
	file string
	text [][2]string // what is there once, and what takes its place
}

// ablations are in the order of the table.
func ablations() []ablation {
	// first makes a function do no more than that.
	first := func(signature, do string) [2]string {
		return [2]string{signature + " {\n", signature + " {\n\tif true { " + do + " }\n"}
	}
	return []ablation{
		{"the mean of a cycle", "ceiling.go", [][2]string{{"est := max(s.cycleRate(), s.agreed(), s.crossed())", "est := 0.9 * s.failRate"}}},
		{"what search and climb agree on", "bucket.go", [][2]string{first("func (s *steer) agreed() float64", "return 0")}},
		{"the crossing of two refusals", "bucket.go", [][2]string{first("func (s *steer) crossed() float64", "return 0")}},
		{"a creep slowed by orders", "search.go", [][2]string{first("func (s *steer) pricedByOrder() bool", "return false")}},
		{"windows of refusals", "window.go", [][2]string{first("func (s *steer) isQuota(pause time.Duration) bool", "return false")}},
		{"told quotas", "quota.go", [][2]string{{"return q != nil && (now < q.reset", "return false && (now < q.reset"}}},
		{"told windows that slide", "quota.go", [][2]string{{"	if q.pace > 0 {\n", "	if q.pace > math.MaxFloat64 {\n"}}},
		{"windows that nobody names", "window.go", [][2]string{first("func (s *steer) fullAgain(more int) bool", "return false")}},
		{"a margin told twice", "window.go", [][2]string{{"toldTwice = 1.02", "toldTwice = 1"}}},
		{"buckets behind long orders", "window.go", [][2]string{{"case s.sameOrder && in > tooMany*known:", "case false:"}}},
		{"the price of a pause", "search.go", [][2]string{
			{"least, till := float32(1), s.quietTill", "least, till := float32(1), clock.Instant(never)"},
			{"s.lag > 0 || s.quietTill > s.at", "false"},
		}},
		{"peace after a quota's refusal", "hold.go", [][2]string{{"if s.lag > 0 && s.from != searching {", "if false {"}}},
		{"the trial at the end of a pause", "steer.go", [][2]string{{"	case ramping:\n		s.ramp(now)", "	case held:\n		if now >= s.till {\n			s.resume(now)\n		}\n	case ramping:\n		s.ramp(now)"}}},
		{"cheaper trials", "hold.go", [][2]string{{"trialCost = 0.25", "trialCost = 1"}}},
		{"waits of a quarter more", "hold.go", [][2]string{{"return max(s.cfg.Breaker.OpenFor, pause/longerBy)", "return s.cfg.Breaker.OpenFor"}}},
		{"the experiment: noise or limit", "noise.go", [][2]string{first("func (s *steer) startTest(now clock.Instant, before belief)", "return")}},
		{"experiments that run to their end", "noise.go", [][2]string{{"if n.testing && s.rate > many &&", "if false &&"}}},
		{"the latency guard", "queue.go", [][2]string{{"slow := math.Exp(m)", "slow := false && math.Exp(m)"}}},
		{"Little's law", "steer.go", [][2]string{
			{"n := 4 + int(4*s.rate*float64(s.queue.mean))", "n := math.MaxInt32"},
			{"n = bound(s.rate, float64(s.queue.mean))", "n = math.MaxInt32"},
		}},
		{"the bound on connections", "hold.go", [][2]string{first("func (s *steer) atDoor(now clock.Instant, o *Observation) bool", "return false")}},
		{"probes", "search.go", [][2]string{first("func (s *steer) scheduleProbe(now clock.Instant)", "return")}},
		{"the longer proof of a probe", "search.go", [][2]string{{"(rec || extra > probeFor*(top-s.ceil))", "true"}}},
		{"the creep", "search.go", [][2]string{first("func (s *steer) crawlUp(now clock.Instant, dt float64)", "return")}},
		{"the climb", "search.go", [][2]string{first("func (s *steer) climb(now clock.Instant)", "return")}},
		{"the climb to what the search was given", "ceiling.go", [][2]string{{"s.regains = float64(s.bulge) > 2*most", "s.regains = false"}}},
		{"what a stalled client makes up", "flight.go", [][2]string{first("func (f *flight) behind(now clock.Instant, rate float64)", "return")}},
		{"what a late timer makes up", "steer.go", [][2]string{{"CatchUp: catchUp(s.rate), ", ""}}},
		{"no growth of a rate unused", "flight.go", [][2]string{first("func (f *flight) busy(now clock.Instant, rate float64) bool", "return true")}},
		{"one event of refusals in flight", "hold.go", [][2]string{{"case o.SentAt <= s.at,", "case false,"}}},
		{"the budget of refusals", "search.go", [][2]string{{"return s.credit >= least &&", "return s.credit >= least+2*creditMin &&"}}},
		{"the way back to a known peak", "search.go", [][2]string{{"return s.ceil < 0.7*s.peakNow(now)", "return false"}}},
		{"outages told from limits", "hold.go", [][2]string{first("func (s *steer) wasOutage(now clock.Instant, pause time.Duration) bool", "return false")}},
		{"blocks (403)", "hold.go", [][2]string{first("func (s *steer) forbid(now clock.Instant, o *Observation)", "return")}},
		{"blocks out of the blue", "ceiling.go", [][2]string{{"if s.from == cruising && float32(s.ceil) <= s.resumeCeil &&", "if false &&"}}},
		{"a block spared seldomer", "ceiling.go", [][2]string{{"math.Pow(1.5, float64(b.spared))", "math.Pow(1, float64(b.spared))"}}},
		{"the ramp after a long pause", "hold.go", [][2]string{{"if pause < mere || s.rested() {", "if true {"}}},
		{"no ramp after a long order", "hold.go", [][2]string{{"if pause < mere || s.rested() {", "if pause < mere {"}}},
	}
}

const controlDir = "../../ratelimit/control"

// without is the source of the part's file without it.
func (a *ablation) without() (string, error) {
	source, err := os.ReadFile(filepath.Join(controlDir, a.file))
	if err != nil {
		return "", err
	}
	text := string(source)
	for _, pair := range a.text {
		if n := strings.Count(text, pair[0]); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, want it once: put the part's text right", a.file, pair[0], n)
		}
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	_, err = parser.ParseFile(token.NewFileSet(), a.file, text, 0)
	return text, err
}

// TestAblation prints the table, if it is asked for. Otherwise it only sees to it that the
// source still has what would be switched off.
func TestAblation(t *testing.T) {
	parts := ablations()
	for i := range parts {
		_, err := parts[i].without()
		require.NoError(t, err, parts[i].part)
	}
	if *ablated == "" {
		return
	}
	all := measureAblation(t, nil)
	t.Logf("%-40s %s", "with every part", all.random())
	for i := range parts {
		if *ablated == "." || strings.Contains(parts[i].part, *ablated) {
			m := measureAblation(t, &parts[i])
			t.Logf("%-40s %s  %s", parts[i].part, m.random(), m.changes(all))
		}
	}
}

// ablationRow is a scenario's mean over its seeds, in percent from the second minute on.
type ablationRow struct{ used, refused, bans float64 }

type ablationTable struct {
	scenarios map[string]ablationRow
	limiters  []ablationRow
}

// measureAblation runs the command in a build without a part, or with all.
func measureAblation(t *testing.T, a *ablation) ablationTable {
	t.Helper()
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	if a != nil {
		text, err := a.without()
		require.NoError(t, err)
		real, err := filepath.Abs(filepath.Join(controlDir, a.file))
		require.NoError(t, err)
		overlay["Replace"][real] = filepath.Join(dir, a.file)
		require.NoError(t, os.WriteFile(filepath.Join(dir, a.file), []byte(text), 0o600))
	}
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600))
	crawl := filepath.Join(dir, "crawl")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", crawl, "../../../cmd/crawl").CombinedOutput()
	require.NoError(t, err, "%s", out)

	table := ablationTable{scenarios: simulated(t, crawl, "--seeds", strconv.Itoa(*ablatedSeeds))}
	for _, row := range simulated(t, crawl, "--random", strconv.Itoa(*ablatedRandom)) {
		table.limiters = append(table.limiters, row)
	}
	return table
}

// simulated is what crawl simulate prints, by scenario.
func simulated(t *testing.T, crawl string, args ...string) map[string]ablationRow {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), crawl, append([]string{"simulate", "--strategy", "steer", "--format", "json"}, args...)...).Output()
	require.NoError(t, err)
	var shown struct {
		Scenarios []struct {
			Name string
			Runs []struct {
				Then struct {
					Utilisation  float64
					RefusedShare float64 `json:"refused_share"`
				}
				Bans float64
			}
		}
	}
	require.NoError(t, json.Unmarshal(out, &shown))
	rows := map[string]ablationRow{}
	for _, s := range shown.Scenarios {
		var sum ablationRow
		for _, r := range s.Runs {
			sum.used += 100 * r.Then.Utilisation
			sum.refused += 100 * r.Then.RefusedShare
			sum.bans += r.Bans
		}
		n := float64(len(s.Runs))
		rows[s.Name] = ablationRow{sum.used / n, sum.refused / n, sum.bans}
	}
	return rows
}

// random is what is used of the random limiters, median and tenth percentile, and the ninth
// tenth of refusals.
func (a *ablationTable) random() string {
	used, refused := make([]float64, 0, len(a.limiters)), make([]float64, 0, len(a.limiters))
	for _, r := range a.limiters {
		used, refused = append(used, r.used), append(refused, r.refused)
	}
	slices.Sort(used)
	slices.Sort(refused)
	at := func(list []float64, p float64) float64 { return list[int(p*float64(len(list)-1)+0.5)] }
	return fmt.Sprintf("%.1f  %.1f  %.2f", at(used, 0.5), at(used, 0.1), at(refused, 0.9))
}

// changes are the four scenarios that differ most from those with every part. A percent
// refused weighs as much as ten that are used.
func (a *ablationTable) changes(all ablationTable) string {
	type change struct {
		weight float64
		text   string
	}
	var list []change
	for name, r := range a.scenarios {
		was := all.scenarios[name]
		list = append(list,
			change{math.Abs(r.used - was.used), fmt.Sprintf("%s %.1f to %.1f", name, was.used, r.used)},
			change{10 * math.Abs(r.refused-was.refused), fmt.Sprintf("%s r%.2f to r%.2f", name, was.refused, r.refused)},
			change{5 * math.Abs(r.bans-was.bans), fmt.Sprintf("%s %v bans to %v", name, was.bans, r.bans)})
	}
	slices.SortFunc(list, func(a, b change) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.text, b.text))
	})
	var words []string
	for _, c := range list[:4] {
		if c.weight > 0 {
			words = append(words, c.text)
		}
	}
	return strings.Join(words, ", ")
}
