package crawl_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/records/sink"
)

// The manual's table of fields is the schema.
func TestManualNamesEveryField(t *testing.T) {
	manual, err := os.ReadFile("docs/records.md")
	require.NoError(t, err)
	for _, f := range sink.Schema() {
		require.Contains(t, string(manual), "| `"+f.Name+"` | "+f.Type+" | "+strings.SplitN(f.Meaning, "(", 2)[0])
	}
}

// manualFiles are the README and the pages beside it.
func manualFiles(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	return append(docs, "README.md")
}

var (
	mdLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	unsaid  = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // what GitHub leaves out of an anchor
)

// What the manual refers to is there.
func TestManualsLinksLeadSomewhere(t *testing.T) {
	for _, name := range manualFiles(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range mdLink.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			file := filepath.Join(filepath.Dir(name), path)
			if path == "" {
				file = name
			}
			target, err := os.Stat(file)
			require.NoError(t, err, "%s: %s", name, m[0])
			if anchor == "" || target.IsDir() {
				continue
			}
			there, err := os.ReadFile(file)
			require.NoError(t, err)
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(string(there), -1) {
				anchors = append(anchors, strings.ReplaceAll(unsaid.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
			}
			require.Contains(t, anchors, anchor, "%s: %s", name, m[0])
		}
	}
}
