package crawl_test

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// mostNames is how many exported names the root may have, methods and fields apart.
const mostNames = 90

// parts are packages for those who build clients and limiters of their own. Some of their types are those of rooms, by an
// alias whose comment says what they have.
var parts = []string{"limit", "resilience", "resilience/binder", "transport"}

func published(t *testing.T) (all []*types.Package) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Name}} {{.Export}}", "./...").Output()
	require.NoError(t, err)
	files := make(map[string]string)
	var paths []string
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 3 { // unsafe has no file
			continue
		}
		files[words[0]] = words[2]
		if rest, ours := strings.CutPrefix(words[0]+"/", module+"/"); ours && words[1] != "main" && !strings.Contains("/"+rest, "/internal/") {
			paths = append(paths, words[0])
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	slices.Sort(paths)
	for _, p := range paths {
		pkg, err := from.Import(p)
		require.NoError(t, err)
		all = append(all, pkg)
	}
	return all
}

// walker looks at all that programs can reach from exported names.
type walker struct {
	lines  []string
	inside map[string]string // internal types, and where they are met first
	seen   map[types.Type]bool
	at     string
}

// named notes a line, and looks at what it is about.
func (w *walker) named(line string, typ types.Type) {
	w.lines, w.at = append(w.lines, line), line
	w.visit(typ)
}

// visit looks at a type that programs can reach.
func (w *walker) visit(typ types.Type) {
	if typ == nil || w.seen[typ] {
		return
	}
	w.seen[typ] = true
	switch typ := typ.(type) {
	case *types.Alias:
		w.visit(typ.Rhs())
	case *types.Named:
		if name := internalName(typ); name != "" && w.inside[name] == "" {
			w.inside[name] = w.at
		}
		for arg := range typ.TypeArgs().Types() {
			w.visit(arg)
		}
	case *types.Pointer:
		w.visit(typ.Elem())
	case *types.Slice:
		w.visit(typ.Elem())
	case *types.Array:
		w.visit(typ.Elem())
	case *types.Chan:
		w.visit(typ.Elem())
	case *types.Map:
		w.visit(typ.Key())
		w.visit(typ.Elem())
	case *types.Signature:
		for v := range typ.Params().Variables() {
			w.visit(v.Type())
		}
		for v := range typ.Results().Variables() {
			w.visit(v.Type())
		}
	case *types.Struct:
		for f := range typ.Fields() {
			if f.Exported() {
				w.visit(f.Type())
			}
		}
	case *types.Interface:
		for m := range typ.Methods() {
			w.visit(m.Type())
		}
	}
}

// internalName is that of an internal type; empty: it is none.
func internalName(typ *types.Named) string {
	pkg := typ.Obj().Pkg()
	if pkg == nil || !strings.HasPrefix(pkg.Path(), module) || !strings.Contains(pkg.Path(), "/internal/") {
		return ""
	}
	return strings.TrimPrefix(pkg.Path(), module+"/") + "." + typ.Obj().Name()
}

func (w *walker) api(pkg *types.Package) (names int) {
	short := func(p *types.Package) string {
		if p == pkg {
			return ""
		}
		return p.Name()
	}
	say := func(typ types.Type) string { return types.TypeString(typ, short) }
	prefix := strings.TrimPrefix(pkg.Path(), path.Dir(module)+"/") + ": "
	for _, name := range pkg.Scope().Names() {
		obj := pkg.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		names++
		switch obj := obj.(type) {
		case *types.TypeName:
			w.typeName(prefix, obj, say)
		case *types.Func:
			w.named(prefix+"func "+name+strings.TrimPrefix(say(obj.Type()), "func"), obj.Type())
		case *types.Const:
			w.named(prefix+"const "+name+" "+say(obj.Type()), obj.Type())
		case *types.Var:
			w.named(prefix+"var "+name+" "+say(obj.Type()), obj.Type())
		}
	}
	return names
}

func (w *walker) typeName(prefix string, obj *types.TypeName, say func(types.Type) string) {
	name, kind := obj.Name(), obj.Type().Underlying()
	switch s := kind.(type) {
	case *types.Struct:
		w.named(prefix+"type "+name+" struct", obj.Type())
		for f := range s.Fields() {
			if f.Exported() {
				w.named(prefix+"field "+name+"."+f.Name()+" "+say(f.Type()), f.Type())
			}
		}
	case *types.Interface:
		w.named(prefix+"type "+name+" interface", obj.Type())
		for m := range s.Methods() {
			w.named(prefix+"method "+name+"."+m.Name()+strings.TrimPrefix(say(m.Type()), "func"), m.Type())
		}
		return
	default:
		w.named(prefix+"type "+name+" "+say(kind), obj.Type())
		w.visit(kind)
	}
	for m := range types.NewMethodSet(types.NewPointer(obj.Type())).Methods() {
		if m.Obj().Exported() {
			w.named(prefix+"method "+name+"."+m.Obj().Name()+strings.TrimPrefix(say(m.Obj().Type()), "func"), m.Obj().Type())
		}
	}
}

// TestDocsHaveTheAPI: docs/reference/api.txt has every name that other modules can use, so that a change of one is seen;
// what they are of is public too; and the root has no more names than a person can look through.
func TestDocsHaveTheAPI(t *testing.T) {
	var text bytes.Buffer
	all := published(t)
	for _, pkg := range all {
		w := walker{inside: make(map[string]string), seen: make(map[types.Type]bool)}
		names := w.api(pkg)
		for name, at := range w.inside {
			if aliased(all, name) && slices.Contains(parts, strings.TrimPrefix(pkg.Path(), module+"/")) {
				continue
			}
			t.Errorf("%s is of %s, which nobody can look up", at, name)
		}
		if pkg.Path() == module {
			assert.LessOrEqual(t, names, mostNames)
		}
		slices.Sort(w.lines)
		for _, line := range w.lines {
			text.WriteString(line + "\n")
		}
	}
	docpage.File(t, "docs/reference/api.txt", text.String())
}

// aliased reports whether one of the parts has a name for an internal type.
func aliased(all []*types.Package, name string) bool {
	for _, pkg := range all {
		for _, alias := range pkg.Scope().Names() {
			obj, ok := pkg.Scope().Lookup(alias).(*types.TypeName)
			if !ok || !obj.IsAlias() || !obj.Exported() {
				continue
			}
			if typ, ok := types.Unalias(obj.Type()).(*types.Named); ok && internalName(typ) == name {
				return true
			}
		}
	}
	return false
}

// TestEveryNameIsDocumented, each field and method too: `go doc` is where programs are written from.
func TestEveryNameIsDocumented(t *testing.T) {
	for _, dir := range append([]string{".", "record", "crawltest", "sqlite", "redis", "console", "traces", "maintext"}, parts...) {
		fset := token.NewFileSet()
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
			require.NoError(t, err)
			for _, missing := range undocumented(fset, file) {
				t.Errorf("%s has no comment", fset.Position(missing))
			}
		}
	}
}

func undocumented(fset *token.FileSet, file *ast.File) (places []token.Pos) {
	note := func(at token.Pos, exported bool, comments ...*ast.CommentGroup) {
		if exported && !slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c.Text() != "" }) {
			places = append(places, at)
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			note(decl.Pos(), decl.Name.IsExported() && (decl.Recv == nil || receiver(decl).IsExported()), decl.Doc)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					note(spec.Pos(), spec.Names[0].IsExported(), decl.Doc, spec.Doc, spec.Comment)
				case *ast.TypeSpec:
					note(spec.Pos(), spec.Name.IsExported(), decl.Doc, spec.Doc)
					if spec.Name.IsExported() {
						places = append(places, undocumentedFields(fset, spec.Type)...)
					}
				}
			}
		}
	}
	return places
}

// undocumentedFields are those of structs and interfaces. A comment above several holds for those up to an empty line.
func undocumentedFields(fset *token.FileSet, typ ast.Expr) (places []token.Pos) {
	ast.Inspect(typ, func(n ast.Node) bool {
		fields, ok := n.(*ast.FieldList)
		if _, isFunc := n.(*ast.FuncType); isFunc {
			return false
		}
		if !ok {
			return true
		}
		above, last := false, 0
		for _, f := range fields.List {
			above = f.Doc != nil || above && fset.Position(f.Pos()).Line == last+1
			last = fset.Position(f.End()).Line
			if len(f.Names) > 0 && f.Names[0].IsExported() && f.Doc == nil && f.Comment == nil && !above {
				places = append(places, f.Pos())
			}
		}
		return true
	})
	return places
}

func receiver(f *ast.FuncDecl) *ast.Ident {
	typ := f.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.Ident:
			return t
		default:
			return ast.NewIdent("_")
		}
	}
}
