// Package axe brings axe-core, which finds what people with disabilities could not use of a page.
package axe

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/lab/realserver"
)

const version = "axe-core@4.11.1"

// Violations is JavaScript: a promise of what is wrong with the page, a line for each, once [Script] was run in it.
const Violations = `axe.run().then(r => r.violations.map(v => v.id + ': ' + v.help + ': ' + v.nodes.map(n => n.html.slice(0, 150)).join(' ; ')))`

// Script is the source of axe-core. npm installs it into bin, once; without npm the test fails in CI, and elsewhere is
// skipped.
func Script(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(docpage.Root(tb), "bin", "axe")
	file := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	source, err := os.ReadFile(file)
	if err == nil {
		return string(source)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	install := exec.CommandContext(tb.Context(), "npm", "install", "--prefix", dir, "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", version)
	if said, err := install.CombinedOutput(); err != nil {
		tb.Logf("npm: %v: %s", err, said)
		realserver.Need(tb, "axe-core, which npm installs,")
	}
	if source, err = os.ReadFile(file); err != nil {
		tb.Fatal(err)
	}
	return string(source)
}
