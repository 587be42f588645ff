package control

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// alike are the names that stand for more than one field of a struct and of all that is
// embedded in it. The compiler takes the outer one without a word, or refuses the use of two
// that are equally deep but not their declaration.
func alike(t reflect.Type) (names []string) {
	times := map[string]int{}
	var count func(t reflect.Type)
	count = func(t reflect.Type) {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for f := range t.Fields() {
			if times[f.Name]++; times[f.Name] == 2 {
				names = append(names, f.Name)
			}
			if f.Anonymous {
				count(f.Type)
			}
		}
	}
	count(t)
	return names
}

// A steer is made of parts whose fields it names as its own, so no two may have a name in
// common: what is written to one would be read from another.
func TestPartsNameNothingAlike(t *testing.T) {
	require.Empty(t, alike(reflect.TypeFor[steer]()))
}

// methods are those of a package's types by the name of the type. Reflection shows only
// those that are exported.
func methods(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	all := map[string][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				of := f.Recv.List[0].Type
				if p, ok := of.(*ast.StarExpr); ok {
					of = p.X
				}
				if of, ok := of.(*ast.Ident); ok {
					all[of.Name] = append(all[of.Name], f.Name.Name)
				}
			}
		}
	}
	return all
}

// A method that is named like a field of another part would hide it, or be hidden.
func TestNoMethodIsNamedLikeAField(t *testing.T) {
	fields := map[string]bool{}
	parts := []string{"steer"}
	var count func(t reflect.Type)
	count = func(t reflect.Type) {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for f := range t.Fields() {
			if fields[f.Name] = true; f.Anonymous {
				parts = append(parts, f.Name)
				count(f.Type)
			}
		}
	}
	count(reflect.TypeFor[steer]())
	of := methods(t, ".")
	require.Contains(t, of["steer"], "judge")
	require.Contains(t, of["block"], "spare")
	for _, part := range parts {
		for _, m := range of[part] {
			require.False(t, fields[m], "the method %s of %s and a field", m, part)
		}
	}
}

type (
	mast struct{ height, sail int }
	hull struct{ *mast }
	keel struct{ length, height int }
	ship struct {
		hull
		keel
		sail bool
	}
)

func TestAlikeFindsWhatIsAlike(t *testing.T) {
	brig := ship{hull{&mast{20, 300}}, keel{30, 2}, true}
	require.Equal(t, []string{"height", "sail"}, alike(reflect.TypeOf(brig)))
	require.Empty(t, alike(reflect.TypeOf(brig.hull)))
}
