package crawl_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each public package of aliases has all that the room behind it has, but for what is of no use to
// other programs. What is new there is decided on here.
func TestPublicPackagesHaveAllOfTheirRooms(t *testing.T) {
	for _, tc := range []struct {
		face, room string
		except     []string
	}{
		{"adaptive", "internal/ratelimit", []string{
			"AdaptiveRateLimiter",     // adaptive.Limiter
			"Brief",                   // Limiter.Inspect tells more
			"NewUseRates", "UseRates", // of budgets that processes of a crawl share
		}},
	} {
		t.Run(tc.face, func(t *testing.T) {
			face, room := exportedBy(t, tc.face), exportedBy(t, tc.room)
			for _, name := range tc.except {
				require.Contains(t, room, name, "an exception that is none any more")
				delete(room, name)
			}
			for _, name := range slices.Sorted(maps.Keys(room)) {
				require.True(t, face[name], "%s.%s: name it in %s as well, or among the exceptions here", tc.room, name, tc.face)
			}
		})
	}
}

// exportedBy is the names at the top of a package that others can use.
func exportedBy(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names[id.Name] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add(s.Name)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							add(id)
						}
					}
				}
			}
		}
	}
	return names
}
