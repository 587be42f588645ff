package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type goPackage struct {
	ImportPath, Export, Dir string
	Imports, GoFiles        []string
}

func program(t *testing.T) (all []goPackage) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,Imports,GoFiles", "./cmd/crawl")
	cmd.Dir = "../.."
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for decoder := json.NewDecoder(out); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all = append(all, p)
	}
	require.NoError(t, cmd.Wait())
	return all
}

// A setting that no code reads is without effect. What counts is that a package other than this one reads its field,
// or a method that others call; validation does not.
func TestEachSettingIsRead(t *testing.T) {
	const self = "github.com/treadlight/crawl/internal/config"
	packages, fset := program(t), token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		i := slices.IndexFunc(packages, func(p goPackage) bool { return p.ImportPath == path })
		return os.Open(packages[i].Export)
	})
	check := func(p goPackage) *types.Info {
		info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
		_, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, info)
		require.NoError(t, err)
		return info
	}
	read := map[string]bool{}
	key := func(f types.Object) string { // the same from within and from without, where columns are not known
		at := fset.Position(f.Pos())
		return fmt.Sprint(f.Name(), filepath.Base(at.Filename), at.Line)
	}
	for _, p := range packages {
		if p.ImportPath != self && !slices.Contains(p.Imports, self) {
			continue
		}
		for at, s := range check(p).Selections {
			checks := p.ImportPath == self && filepath.Base(fset.Position(at.Pos()).Filename) == "validate.go"
			if s.Kind() == types.FieldVal && !checks {
				read[key(s.Obj())] = true
			}
		}
	}
	config, err := imports.Import(self)
	require.NoError(t, err)
	var each func(name string, of types.Type)
	each = func(name string, of types.Type) {
		s, ok := of.Underlying().(*types.Struct)
		if named, is := of.(*types.Named); !ok || is && named.Obj().Pkg() != config {
			return
		}
		for f := range s.Fields() {
			if name == "Config.RateLimit" { // read by reflection, see TestEachSettingOfPaceReachesTheEngine
				continue
			}
			require.True(t, read[key(f)], "no code reads %s.%s", name, f.Name())
			each(name+"."+f.Name(), f.Type())
		}
	}
	each("Config", config.Scope().Lookup("Config").Type())
	each("Host", config.Scope().Lookup("Host").Type())
}
