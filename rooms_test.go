package crawl_test

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// rooms are the packages of internal, and the public ones that are rooms themselves, from left to
// right: code imports rooms to the left of its own and no other. Those in one line stand side by
// side and do not import each other. binder is resilience/binder.
var rooms = [][]string{
	{"clock", "backend", "lazy"},
	{"store", "document"},
	{"record"},
	{"ratelimit"},
	{"resilience"},
	{"fetch"},
	{"transport"},
	{"binder"},
	{"admission"},
	{"web"},
	{"frontier", "records"},
	{"pipeline"},
	{"observe", "render"},
	{"config"},
	{"assembly"},
}

const module = "github.com/treadlight/crawl"

var (
	// labUsers are the verbs that show what the lab has.
	labUsers = regexp.MustCompile(`^cmd/crawl/(.*/)?(demo|simulate|testsite)`)
	// testCode are the files of tests, and packages of suites and fakes.
	testCode = regexp.MustCompile(`_test\.go$|test/[^/]*$|^internal/lab/`)
	// forTests are libraries that production code has no use for.
	forTests = regexp.MustCompile(`^(github\.com/stretchr/testify|pgregory\.net/rapid)(/|$)`)
	// faces are the packages that have a program link what a room needs, beside the root.
	faces = regexp.MustCompile(`^(admit|sqlite|redis|console|traces|maintext|browser)(/|$)`)
)

// level is where the room of a path stands; -1: it is in none.
func level(path string) (at int, room string) {
	room, ok := strings.CutPrefix(path, "internal/")
	room, _, _ = strings.Cut(room, "/")
	switch {
	case strings.HasPrefix(path+"/", "resilience/binder/"):
		room = "binder"
	case strings.HasPrefix(path+"/", "limit/"):
		room = "ratelimit" // its limiters, which the engine is built on
	case room == "resilience" || room == "transport" || room == "record":
	case !ok:
		return -1, ""
	}
	return slices.IndexFunc(rooms, func(side []string) bool { return slices.Contains(side, room) }), room
}

// misplaced says why a file must not import a path; empty: it may. Paths of this module have no
// prefix, and its root is ".".
func misplaced(file, path string) string {
	from, own := level(file)
	to, other := level(path)
	internal := from >= 0 && !testCode.MatchString(file) || strings.HasPrefix(file, "internal/") && own != "integration"
	switch {
	case path == "cmd/crawl" || strings.HasPrefix(path, "cmd/"):
		if !strings.HasPrefix(file, "cmd/") {
			return "the command stands outermost"
		}
	case internal && (path == "." || faces.MatchString(path)):
		return "it is a public name for a room"
	case testCode.MatchString(file):
	case forTests.MatchString(path):
		return "only tests and benchmarks use it"
	case other == "lab" && !labUsers.MatchString(file):
		return "the lab is for tests, and for the verbs demo, testsite and simulate"
	case from >= 0 && to >= from && own != other:
		return other + " does not stand to the left of " + own
	}
	return ""
}

// Each file of the module keeps the order of the rooms.
func TestImportsKeepTheOrderOfTheRooms(t *testing.T) {
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "bench" || file == "examples" || d.Name() == "testdata" || file != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir // modules of their own, and no code
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		if at, room := level(file); at < 0 && strings.HasPrefix(file, "internal/") && room != "lab" && room != "integration" {
			t.Errorf("%s: the room %s has no place in the order", file, room)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if path == module {
				path = "."
			}
			if why := misplaced(filepath.ToSlash(file), strings.TrimPrefix(path, module+"/")); why != "" {
				t.Errorf("%s imports %s: %s", file, path, why)
			}
		}
		return nil
	}))
}

// The rules find what they are for.
func TestMisplacedImportsAreFound(t *testing.T) {
	for _, tc := range []struct {
		file, path string
		bad        bool
	}{
		{"internal/ratelimit/feed.go", "internal/admission", true},
		{"internal/admission/redis/shared.go", "internal/ratelimit", false},
		{"internal/frontier/disk/store.go", "internal/records/sink", true},
		{"internal/records/sink/sink.go", "internal/frontier", true},
		{"internal/frontier/disk/store.go", "internal/frontier/seen", false},
		{"internal/frontier/disk/check_test.go", "internal/records/sink", false},
		{"internal/pipeline/config.go", "internal/observe/telemetry", true},
		{"internal/clock/clock.go", "internal/lab/fetchtest", true},
		{"internal/clock/clock_test.go", ".", true},
		{"internal/fetch/client.go", "transport", true},
		{"transport/client.go", "internal/fetch/reach", false},
		{"transport/client.go", "resilience/binder", true},
		{"internal/config/policies.go", "resilience/binder", false},
		{"transport/client.go", "internal/web", true},
		{"resilience/retry.go", ".", true},
		{"internal/integration/crawl_test.go", ".", false},
		{"cmd/crawl/demo.go", "internal/lab/testsite", false},
		{"cmd/crawl/resume.go", "internal/lab/testsite", true},
		{"crawl.go", "cmd/crawl", true},
		{"internal/web/dom/dom.go", "pgregory.net/rapid", true},
		{"internal/web/dom/dom_test.go", "pgregory.net/rapid", false},
	} {
		require.Equal(t, tc.bad, misplaced(tc.file, tc.path) != "", "%s imports %s", tc.file, tc.path)
	}
}

// mostNames is how many exported names the root may have, methods and fields apart.
const mostNames = 90

// parts are packages for those who build clients and limiters of their own. Some of their types are those of rooms, by an
// alias whose comment says what they have.
var parts = []string{"limit", "resilience", "resilience/binder", "transport"}

func published(t *testing.T) (all []*types.Package) {
	t.Helper()
	out := must(exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Name}} {{.Export}}", "./...").Output())
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
		pkg := must(from.Import(p))
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
		files := must(filepath.Glob(filepath.Join(dir, "*.go")))
		require.NotEmpty(t, files, dir)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file := must(parser.ParseFile(fset, name, nil, parser.ParseComments))
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
