// Package docs_test keeps the pages true: what is generated is up to date, links lead somewhere,
// code compiles, settings load.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// docs/reference/settings.md has what `crawl config --reference` prints.
func TestDocsHaveEverySetting(t *testing.T) {
	var text strings.Builder
	require.NoError(t, config.Reference(&text))
	docpage.Check(t, "docs/reference/settings.md", "settings", text.String())
}

// docs/explanation/politeness.md says of each strategy what it does and whom it is for.
func TestDocsHaveEveryStrategy(t *testing.T) {
	page := docpage.Read(t, "docs/explanation/politeness.md")
	for _, name := range control.Names() {
		require.Contains(t, page, "\n| `"+name+"` | ")
	}
}

// The front page is one that people read to its end.
func TestReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, len(strings.Fields(docpage.Read(t, "README.md"))), 900)
}

// What the front page shows is small enough for slow lines.
func TestPicturesAreSmall(t *testing.T) {
	pictures, err := filepath.Glob("images/*")
	require.NoError(t, err)
	require.NotEmpty(t, pictures)
	for _, name := range pictures {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(150_000), name)
	}
}

var (
	mdLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	outOfLinks = regexp.MustCompile(`[^\p{L}\p{N} _-]`) // what GitHub leaves out of an anchor
)

// Links lead to files and headings that are there.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, name := range docpage.Pages(t) {
		for _, m := range mdLink.FindAllStringSubmatch(docpage.Read(t, name), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			file := filepath.Join("..", filepath.Dir(name), path)
			if path == "" {
				file = filepath.Join("..", name)
			}
			target, err := os.Stat(file)
			require.NoError(t, err, "%s: %s", name, m[0])
			if anchor == "" || target.IsDir() {
				continue
			}
			text := readFile(t, file)
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
				anchors = append(anchors, strings.ReplaceAll(outOfLinks.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
			}
			require.Contains(t, anchors, anchor, "%s: %s", name, m[0])
		}
	}
}

// Every page below docs can be reached from the README by links.
func TestEveryPageIsLinked(t *testing.T) {
	reached := map[string]bool{"README.md": true}
	for queue := []string{"README.md"}; len(queue) > 0; queue = queue[1:] {
		for _, m := range mdLink.FindAllStringSubmatch(docpage.Read(t, queue[0]), -1) {
			path, _, _ := strings.Cut(m[1], "#")
			page := filepath.ToSlash(filepath.Join(filepath.Dir(queue[0]), path))
			if strings.Contains(m[1], "://") || filepath.Ext(page) != ".md" || reached[page] {
				continue
			}
			reached[page] = true
			queue = append(queue, page)
		}
	}
	for _, page := range docpage.Pages(t) {
		require.True(t, reached[page], "no page that the README leads to has a link to %s", page)
	}
}

var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]+)`")

// A test that a page names as its proof is there.
func TestNamedTestsAreThere(t *testing.T) {
	there := map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			for line := range strings.Lines(docpage.Read(t, strings.TrimPrefix(path, "../"))) {
				if f, is := strings.CutPrefix(line, "func "); is {
					name, _, _ := strings.Cut(f, "(")
					there[name] = true
				}
			}
		}
		return err
	}))
	named := 0
	for _, page := range docpage.Pages(t) {
		for _, m := range testName.FindAllStringSubmatch(docpage.Read(t, page), -1) {
			named++
			require.True(t, there[m[1]], "%s names %s, which is not there", page, m[1])
		}
	}
	require.Greater(t, named, 20)
}
