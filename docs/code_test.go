package docs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/resilience/binder"
)

// surroundings is what stands around each block of Go of docs/how-to/use-in-go.md, in a package of its own: the packages
// that it uses, and what it takes from the program around it.
const surroundings = `package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/admit"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/record"
)

type Book struct{ Title, Price, List string }

func _(ctx context.Context, t *testing.T, mux *http.ServeMux, sign func(string) string, send func() (int, http.Header, error)) error {
%s
	return nil
}
`

// blocks are those of a language in a text.
func blocks(text, language string) (all []string) {
	fence := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// exports returns an importer of the packages that surroundings names and those that they import.
func exports(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, m := range regexp.MustCompile(`(?m)^\t"(.*)"$`).FindAllStringSubmatch(surroundings, -1) {
		args = append(args, m[1])
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

func TestGoCodeCompiles(t *testing.T) {
	const page = "docs/how-to/use-in-go.md"
	fset := token.NewFileSet()
	config := types.Config{Importer: exports(t, fset)}
	found := blocks(docpage.Read(t, page), "go")
	require.Len(t, found, 9)
	for _, block := range found {
		formatted, err := format.Source([]byte(block))
		require.NoError(t, err)
		require.Equal(t, string(formatted), block, "gofmt")
		file, err := parser.ParseFile(fset, page, fmt.Sprintf(surroundings, block), parser.SkipObjectResolution)
		require.NoError(t, err, block)
		config.Error = func(err error) {
			if e := new(types.Error); !errors.As(err, e) || !e.Soft { // a soft error is that of an import or a variable that the block does not use
				t.Errorf("%v in\n%s", err, block)
			}
		}
		_, _ = config.Check("page", fset, []*ast.File{file}, nil) // Error is called with every error
	}
	for _, name := range docpage.Pages(t) {
		if name != page && !strings.Contains(name, "/coming-from-") { // which TestCodeOfPeersPagesCompiles is for
			require.Empty(t, blocks(docpage.Read(t, name), "go"), "%s has Go code that no test compiles", name)
		}
	}
}

// The settings and the policies that the pages show can be had as they are.
func TestSettingsLoad(t *testing.T) {
	t.Setenv("OTLP_TOKEN", "0123456789abcdef")
	seen := 0
	for _, name := range docpage.Pages(t) {
		text := docpage.Read(t, name)
		for _, block := range blocks(text, "yaml") {
			seen++
			_, err := config.Load(config.Sources{File: "crawl.yaml", Reader: strings.NewReader(block)})
			require.NoError(t, err, "%s:\n%s", name, block)
		}
		for _, block := range blocks(text, "json") {
			seen++
			_, err := binder.Load([]byte(block))
			require.NoError(t, err, "%s:\n%s", name, block)
		}
	}
	require.GreaterOrEqual(t, seen, 6)
}
