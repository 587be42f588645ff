package dom

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/lab/conformance"
)

// treeCase is one of the tree-construction tests of html5lib, as x/net carries them.
type treeCase struct {
	file                 string
	data, document       string
	fragment             bool
	scripted, unscripted bool // only with scripts on, or only with scripts off
}

// netDir is where the module of x/net is, of which the tests are read and not copied.
func netDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/net").Output()
	require.NoError(t, err)
	dir := filepath.Join(strings.TrimSpace(string(out)), "html", "testdata")
	require.DirExists(t, dir)
	return dir
}

func treeCases(t *testing.T) (all []treeCase) {
	dir := netDir(t)
	for _, pattern := range []string{"html5lib-tests/tree-construction/*.dat", "html5lib-tests/tree-construction/scripted/*.dat", "go/*.dat"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, f := range files {
			name, err := filepath.Rel(dir, f)
			require.NoError(t, err)
			content, err := os.ReadFile(f)
			require.NoError(t, err)
			all = append(all, splitCases(filepath.ToSlash(name), string(content))...)
		}
	}
	return all
}

// splitCases reads a file of tests: each begins with #data, and its sections with #NAME.
func splitCases(file, content string) (all []treeCase) {
	for text := range strings.SplitSeq("\n"+content, "\n#data\n") {
		if text == "" {
			continue
		}
		c, section := treeCase{file: file}, "data"
		parts := map[string][]string{}
		for line := range strings.SplitSeq(text, "\n") {
			switch line {
			case "#errors", "#new-errors", "#document", "#document-fragment", "#script-on", "#script-off":
				section = line[1:]
				parts[section] = nil
				c.fragment = c.fragment || section == "document-fragment"
				c.scripted = c.scripted || section == "script-on"
				c.unscripted = c.unscripted || section == "script-off"
			default:
				parts[section] = append(parts[section], line)
			}
		}
		c.data = strings.Join(parts["data"], "\n")
		c.document = strings.TrimRight(strings.Join(parts["document"], "\n"), "\n")
		all = append(all, c)
	}
	return all
}

func dump(b *strings.Builder, n *html.Node, level int) {
	indent := "| " + strings.Repeat("  ", level)
	switch n.Type {
	case html.ElementNode:
		b.WriteString(indent + "<" + strings.TrimPrefix(n.Namespace+" ", " ") + n.Data + ">\n")
		for _, a := range slices.SortedFunc(slices.Values(n.Attr), func(a, b html.Attribute) int { return cmp.Compare(a.Key, b.Key) }) {
			fmt.Fprintf(b, "%s  %s%s=\"%s\"\n", indent, strings.TrimPrefix(a.Namespace+" ", " "), a.Key, a.Val)
		}
		if n.Namespace == "" && n.DataAtom == atom.Template {
			b.WriteString(indent + "  content\n")
			level++
		}
	case html.TextNode:
		b.WriteString(indent + `"` + n.Data + "\"\n")
	case html.CommentNode:
		b.WriteString(indent + "<!-- " + n.Data + " -->\n")
	case html.DoctypeNode:
		b.WriteString(indent + "<!DOCTYPE " + n.Data)
		ids := map[string]string{}
		for _, a := range n.Attr {
			ids[a.Key] = a.Val
		}
		if ids["public"] != "" || ids["system"] != "" {
			fmt.Fprintf(b, ` "%s" "%s"`, ids["public"], ids["system"])
		}
		b.WriteString(">\n")
	case html.DocumentNode:
		level--
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		dump(b, c, level+1)
	}
}

// TestHTML5Lib runs the tests of the standard's parser on the trees that selectors see.
func TestHTML5Lib(t *testing.T) {
	all := treeCases(t)
	result := conformance.Result{Cases: len(all), NotRun: map[string]int{}}
	for _, c := range all {
		switch {
		case c.fragment:
			result.NotRun["it is of a fragment, and pages are documents"]++
			continue
		case c.scripted, strings.Contains(c.file, "/scripted/"):
			result.NotRun["it is with scripts on, and we run none"]++
			continue
		case strings.Contains(c.data, "<selectedcontent>"):
			result.NotRun["it is of selectedcontent, which shows a choice again: x/net has no insertion steps"]++
			continue
		case c.data == "<math><template><mo><template>":
			result.NotRun["it is of a template in MathML in a template: x/net drops the inner one"]++
			continue
		}
		d := Parse([]byte(c.data))
		var b strings.Builder
		dump(&b, d.Root, 0)
		switch got := strings.TrimRight(b.String(), "\n"); {
		case d.Cut:
			t.Errorf("%s: %q was not parsed by the standard", c.file, c.data)
		case got == c.document:
			result.Passed++
		default:
			t.Errorf("%s: %q\ngot:\n%s\nwant:\n%s", c.file, c.data, got, c.document)
		}
	}
	if !t.Failed() {
		require.Greater(t, result.Passed, 1000, "the tests are there")
		conformance.Report(t, "html5lib-trees", result)
	}
}
