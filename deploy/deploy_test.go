// Package deploy_test holds what is deployed beside the program to what the program does.
package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

var (
	row    = regexp.MustCompile("(?m)^\\| `(treadlight_[a-z_]+)` \\| ([a-z]+) \\|")
	metric = regexp.MustCompile(`\b(treadlight|go|process)_[a-z_]+\b`)
	quoted = regexp.MustCompile(`"[^"]*"`)
)

// elsewhere are the metrics of the runtime and the process that the dashboard has.
var elsewhere = []string{
	"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds",
	"go_memstats_heap_alloc_bytes", "go_goroutines", "go_gc_duration_seconds",
}

// series are the names of the series there are, by docs/reference/metrics.md, which a test of package console holds
// to what a console shows.
func series(t *testing.T) map[string]bool {
	t.Helper()
	text := must(os.ReadFile(filepath.Join("..", "docs", "reference", "metrics.md")))
	names := make(map[string]bool)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if m[2] != "histogram" {
			names[m[1]] = true
			continue
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			names[m[1]+part] = true
		}
	}
	require.Greater(t, len(names), 60)
	for _, name := range elsewhere {
		names[name] = true
	}
	return names
}

// requireKnown fails the test for a metric in an expression that there is not.
func requireKnown(t *testing.T, names map[string]bool, expr string) {
	t.Helper()
	found := metric.FindAllString(quoted.ReplaceAllString(expr, `""`), -1)
	for _, name := range found {
		require.True(t, names[name], "there is no %s: %s", name, expr)
	}
	require.True(t, len(found) > 0 || strings.HasPrefix(expr, "up{"), "no metric in %q", expr)
}

func TestDashboard(t *testing.T) {
	type target struct{ Expr string }
	var dashboard struct {
		UID    string
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []target
			Datasource  struct{ UID string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	text := must(os.ReadFile(filepath.Join("grafana", "treadlight.json")))
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.Equal(t, "treadlight", dashboard.UID)
	names, ids, cells := series(t), map[int]bool{}, map[[2]int]string{}
	rows, shown := 0, map[string]bool{}
	for _, p := range dashboard.Panels {
		require.False(t, ids[p.ID], "two panels %d", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, cells[at], "%s lies over it", p.Title)
				cells[at] = p.Title
			}
		}
		if p.Type == "row" {
			rows++
			continue
		}
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, each := range p.Targets {
			requireKnown(t, names, each.Expr)
			for _, name := range metric.FindAllString(each.Expr, -1) {
				shown[name] = true
			}
			if strings.Contains(each.Expr, "_total{") && !strings.Contains(each.Expr, "known_urls") {
				require.Contains(t, each.Expr, "rate(", "%s shows a counter as it is", p.Title)
			}
		}
	}
	require.GreaterOrEqual(t, rows, 6)
	for _, v := range dashboard.Templating.List[1:] {
		requireKnown(t, names, v.Definition)
	}
	for name := range names { // what is measured is shown
		if strings.HasSuffix(name, "_bucket") {
			require.True(t, shown[name], "%s is nowhere on the dashboard", name)
		}
	}
}

func TestAlerts(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	text := must(os.ReadFile(filepath.Join("prometheus", "alerts.yml")))
	require.NoError(t, yaml.Unmarshal(text, &rules))
	tests := must(os.ReadFile(filepath.Join("prometheus", "alerts_test.yml")))
	names, n := series(t), 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			requireKnown(t, names, r.Expr)
			require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
			require.NotEmpty(t, r.Annotations["summary"], r.Alert)
			require.Greater(t, len(r.Annotations["runbook"]), 100, r.Alert)
			require.Contains(t, string(tests), r.Alert, "nobody tries it")
		}
	}
	require.Greater(t, n, 8)
}

// Prometheus takes the files as they are, and the alerts come when they should.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		realserver.Need(t, "promtool, of the Debian package prometheus")
	}
	shown := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(shown, dashboardRules(t), 0o600))
	for _, args := range [][]string{
		{"check", "rules", shown},
		{"check", "config", filepath.Join("prometheus", "prometheus.yml")},
		{"test", "rules", filepath.Join("prometheus", "alerts_test.yml")},
	} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, "promtool %v: %s", args, out)
	}
}

// variable is one that Grafana puts a value in the place of: a span within brackets, or a pattern.
var variable = regexp.MustCompile(`\$(__rate_interval|__interval|__range|job|instance)\b`)

// dashboardRules are the expressions of the dashboard as rules, for promtool to read.
func dashboardRules(t *testing.T) []byte {
	t.Helper()
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	text := must(os.ReadFile(filepath.Join("grafana", "treadlight.json")))
	require.NoError(t, json.Unmarshal(text, &dashboard))
	type rule struct{ Record, Expr string }
	var rules []rule
	for _, p := range dashboard.Panels {
		for _, each := range p.Targets {
			expr := variable.ReplaceAllStringFunc(each.Expr, func(name string) string {
				if strings.HasPrefix(name, "$__") {
					return "5m"
				}
				return ".*"
			})
			require.NotContains(t, expr, "$", "a variable that nobody knows")
			rules = append(rules, rule{fmt.Sprintf("shown:%d", len(rules)), expr})
		}
	}
	out, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	return out
}

// The services and their timers are such that systemd takes, whatever is installed where they are checked.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal("systemd-analyze, of the Debian package systemd, is not here: continuous integration has to check the units")
	case err != nil:
		t.Skip("the units are NOT CHECKED: systemd-analyze, of the Debian package systemd, is not here")
	}
	dir := t.TempDir()
	args := []string{"verify"}
	for _, name := range []string{"crawl@.service", "crawl@.timer", "crawl-watch@.service", "crawl-watch@.timer"} {
		unit := must(os.ReadFile(filepath.Join("systemd", name)))
		// An instance of it, as a template cannot be; its manual is not installed here, nor is the program.
		path := filepath.Join(dir, strings.Replace(name, "@", "@site", 1))
		unit = regexp.MustCompile("(?m)^Documentation=.*$").ReplaceAll(unit, nil)
		unit = bytes.ReplaceAll(unit, []byte("/usr/local/bin/crawl"), []byte("/bin/true"))
		require.NoError(t, os.WriteFile(path, unit, 0o600))
		args = append(args, path)
	}
	// Its status is also of the units that this one wants, whatever they are here.
	out, _ := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
	require.NotContains(t, string(out), "@site")
}

// The service begins a crawl, goes on with what was interrupted, and begins a round after one that has ended.
func TestUnitCrawlsAgain(t *testing.T) {
	unit := must(os.ReadFile(filepath.Join("systemd", "crawl@.service")))
	script := func(key string) string {
		found := regexp.MustCompile("(?m)^" + key + "=/bin/sh -c '(.*)'$").FindSubmatch(unit)
		require.NotNil(t, found, key)
		return strings.NewReplacer("$$", "$", "/usr/local/bin/crawl", "echo crawl", "%i", "site").Replace(string(found[1]))
	}
	dir := t.TempDir()
	sh := func(text, status string) string {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", text)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "EXIT_STATUS="+status)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	start, stopped := script("ExecStart"), script("ExecStopPost")
	begin := "crawl --config /etc/crawl/site.yaml -o ./"
	again, resume := "crawl again . --config /etc/crawl/site.yaml", "crawl resume . --config /etc/crawl/site.yaml"
	require.Equal(t, begin, sh(start, ""))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "state.db"), nil, 0o600))
	for _, step := range []struct{ status, next string }{
		{"KILL", resume}, {"11", resume}, {"0", again}, {"11", resume}, {"10", again}, {"18", again}, {"4", again}, {"3", resume},
	} {
		sh(stopped, step.status)
		require.Equal(t, step.next, sh(start, ""), "after %s", step.status)
	}
}

// make vuln says that it could not look, and fails for a finding alone. Continuous integration runs it.
func TestVuln(t *testing.T) {
	ci := must(os.ReadFile(filepath.Join("..", ".ci", "run")))
	require.Regexp(t, `(?m)^make( \S+)* vuln\b`, string(ci))
	for code, want := range map[string]string{"0": "No vulnerability is known.", "1": "NOT CHECKED", "3": "Vulnerabilities were found"} {
		cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", "..", "vuln", "VULNCHECK=(exit "+code+")")
		out, err := cmd.CombinedOutput()
		require.Contains(t, string(out), want)
		require.Equal(t, code == "3", err != nil, "%s", out)
	}
}

// must returns v, and panics for an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
