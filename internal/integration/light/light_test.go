// Package light tests what a program gets that imports the module and none of the packages beside it: what it links,
// what it is told of the rest, and what the ways to its pages cost.
package light_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/admit"
)

// mostModules is how many modules a program links that only crawls. One more is to be wanted by all such programs.
const mostModules = 20

func TestHelloIsLight(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "github.com/treadlight/crawl").Output()
	require.NoError(t, err)
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	modules = slices.DeleteFunc(slices.Compact(modules), func(path string) bool { return path == "github.com/treadlight/crawl" })
	require.LessOrEqual(t, len(modules), mostModules, "what needs one of them registers by import:\n%s", strings.Join(modules, "\n"))
	page, err := os.ReadFile("../../../docs/how-to/use-in-go.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("links %d modules", len(modules)))
}

// What is not linked is said before anything is made or asked for.
func TestMissingPackagesAreNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	build := func(o crawl.Options) func() error {
		return func() error { _, err := crawl.New(o); return err }
	}
	admit := func(store string) func() error {
		return func() error { _, err := admit.New(admit.Config{Store: store}); return err }
	}
	for _, tc := range []struct {
		name, pkg string
		use       func() error
	}{
		{"state", "sqlite", build(crawl.Options{StateDir: dir, Output: crawl.OutputOptions{Overwrite: true}})},
		{"remember", "sqlite", build(crawl.Options{Politeness: crawl.PolitenessOptions{Remember: filepath.Join(dir, "hosts.db")}})},
		{"fleet", "redis", build(crawl.Options{Fleet: crawl.FleetOptions{Redis: "redis://127.0.0.1:1", Job: "j"}})},
		{"traces", "traces", build(crawl.Options{Traces: crawl.TracesOptions{Endpoint: "http://127.0.0.1:4318"}})},
		{"render", "browser", build(crawl.Options{Render: crawl.RenderOptions{Mode: "auto"}})},
		{"listen", "console", func() error { _, err := crawl.Listen(crawl.ListenConfig{Addr: "0"}); return err }},
		{"admit by SQLite", "sqlite", admit("sqlite:" + filepath.Join(dir, "counts.db"))},
		{"admit by Redis", "redis", admit("redis://127.0.0.1:1")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.ErrorContains(t, tc.use(), `add import _ "github.com/treadlight/crawl/`+tc.pkg+`"`)
			require.NoDirExists(t, dir)
		})
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	_, err := crawl.OpenState(crawl.StateConfig{Dir: dir})
	require.ErrorContains(t, err, `/sqlite"`)
}
