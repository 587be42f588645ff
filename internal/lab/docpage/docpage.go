// Package docpage keeps the generated parts of the documentation up to date. A test that knows
// the facts writes them as text and calls [Check], which fails where the page says something
// else. With UPDATE=1 in the environment Check writes the page instead: `make docs`.
package docpage

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Check compares a generated part of a page with what it should be. The page is named from the
// root of the repository. In it the part stands between two lines:
//
//	<!-- NAME: generated, see `make docs` -->
//	<!-- end of NAME -->
func Check(tb testing.TB, page, name, want string) {
	tb.Helper()
	Between(tb, page, "<!-- "+name+": generated, see `make docs` -->\n", "<!-- end of "+name+" -->\n", want)
}

// File is Check for a file that is generated whole.
func File(tb testing.TB, page, want string) {
	tb.Helper()
	Between(tb, page, "", "", want)
}

// Between is Check for a part between two texts, each with the end of its line.
func Between(tb testing.TB, page, begin, end, want string) {
	tb.Helper()
	path := filepath.Join(Root(tb), filepath.FromSlash(page))
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), begin)
	have, after, ended := strings.Cut(rest, end)
	if end == "" {
		have, after = rest, ""
	}
	if !begun || !ended {
		tb.Fatalf("%s has no lines %q and %q", page, begin, end)
	}
	want = strings.TrimRight(want, "\n") + "\n"
	switch {
	case have == want:
	case os.Getenv("UPDATE") != "":
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o600); err != nil {
			tb.Fatal(err)
		}
	default:
		line, wrote, should := firstDifference(have, want)
		tb.Errorf("%s is out of date: `make docs` writes it anew. Line %d of that part is\n%s\nand should be\n%s", page, line, wrote, should)
	}
}

func firstDifference(a, b string) (line int, inA, inB string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(as), len(bs)) {
		inA, inB = "", ""
		if i < len(as) {
			inA = as[i]
		}
		if i < len(bs) {
			inB = bs[i]
		}
		if inA != inB {
			return i + 1, inA, inB
		}
	}
	return 0, "", ""
}

// Root is the directory of go.mod, from the directory of any package.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			tb.Fatal("there is no go.mod above the package")
		}
		dir = above
	}
}

// Pages are all pages for people: those at the root, and those below docs. The names are paths
// from the root.
func Pages(tb testing.TB) []string {
	tb.Helper()
	root := os.DirFS(Root(tb))
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := fs.Glob(root, pattern)
		if err != nil {
			tb.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 10 {
		tb.Fatalf("only %d pages were found: %v", len(pages), pages)
	}
	return pages
}

// Read is the text of a page, named from the root of the repository.
func Read(tb testing.TB, page string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(Root(tb), filepath.FromSlash(page)))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
