package config

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/document"
)

// leaves are all settings that a struct type holds, by the names of their fields.
func leaves(typ reflect.Type, prefix string) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for name, i := range places(typ) {
		f, path := typ.Field(i), document.Join(prefix, name)
		switch {
		case path == hostsPath, path == resiliencePath:
		case f.Type.Kind() == reflect.Struct:
			maps.Copy(all, leaves(f.Type, path))
		default:
			all[path] = f.Type
		}
	}
	return all
}

func TestTableAndStructsNameTheSameSettings(t *testing.T) {
	for _, side := range []struct {
		typ  reflect.Type
		rows []field
	}{{reflect.TypeFor[Config](), fields()}, {reflect.TypeFor[Host](), hostFields()}} {
		held := leaves(side.typ, "")
		for _, f := range side.rows {
			path := strings.ReplaceAll(f.path, "_", "")
			typ, ok := held[path]
			require.Equal(t, !f.noStruct, ok, "row %s and its struct field", f.path)
			if ok {
				require.Contains(t, goTypes(f.kind), typ, "type of %s", f.path)
			}
			delete(held, path)
		}
		require.Empty(t, held, "struct fields without a row")
	}
}

func goTypes(k kind) []reflect.Type {
	switch k {
	case kindBool:
		return []reflect.Type{reflect.TypeFor[bool]()}
	case kindInt:
		return []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[int64]()}
	case kindSize:
		return []reflect.Type{reflect.TypeFor[int64]()}
	case kindRate, kindNumber:
		return []reflect.Type{reflect.TypeFor[float64]()}
	case kindDuration:
		return []reflect.Type{reflect.TypeFor[time.Duration]()}
	case kindList:
		return []reflect.Type{reflect.TypeFor[[]string]()}
	}
	return []reflect.Type{reflect.TypeFor[string]()}
}

func TestRowsAreWhole(t *testing.T) {
	flags, shorts, vars := map[string]string{}, map[string]string{}, map[string]string{}
	claim := func(taken map[string]string, name, path string) {
		t.Helper()
		require.Empty(t, taken[name], "%s is claimed by %s too", name, path)
		taken[name] = path
	}
	for _, f := range fields() {
		require.Regexp(t, `^[a-z0-9_]+(\.[a-z0-9_]+)?$`, f.path)
		require.NotEmpty(t, f.doc, f.path)
		require.NotRegexp(t, `^[A-Z][a-z]+ |\.$|\n`, f.doc, "%s: the sentence begins small and has no full stop", f.path)
		require.Equal(t, f.kind == kindChoice || f.path == "output.record", len(f.enum) > 1, f.path)
		require.Equal(t, f.kind == kindInt || f.kind == kindNumber, f.unit != "", "%s: a unit", f.path)
		_, ordered := number(f.bound(f.def))
		require.Equal(t, ordered, f.min != "" && f.max != "", "%s: a range", f.path)
		require.Equal(t, f.kind == kindBool && f.def == "true" && f.flag != "", f.unless != "", "%s: help for --no-%s", f.path, f.flag)
		if f.zero != "" {
			require.Contains(t, f.doc, "0 = ", f.path)
		}
		if f.kind == kindText && f.def == "" || f.kind == kindList {
			require.Contains(t, f.doc, "empty = ", f.path)
		}
		claim(vars, f.env(), f.path)
		if f.flag == "" {
			require.Empty(t, f.short, f.path)
			continue
		}
		for _, flag := range f.flags() {
			claim(flags, flag.Name, f.path)
			if flag.Shorthand != "" {
				require.Len(t, flag.Shorthand, 1)
				claim(shorts, flag.Shorthand, f.path)
			}
		}
	}
}

func TestDefaultsBoundsAndExamplesAreValid(t *testing.T) {
	require.NoError(t, Default().Validate())
	for _, f := range append(fields(), hostFields()...) {
		values := []string{f.def, f.example}
		if f.min != "" {
			values = append(values, f.min, f.max)
			lo, _ := number(f.bound(f.min))
			hi, _ := number(f.bound(f.max))
			require.Less(t, lo, hi, f.path)
		}
		for _, s := range values {
			if s == "" {
				continue
			}
			v, err := f.parse(s)
			require.NoError(t, err, "%s: %s", f.path, s)
			require.NoError(t, f.inRange(v), "%s: %s", f.path, s)
			if f.check != nil {
				require.NoError(t, f.check(s), "%s: %s", f.path, s)
			}
			back, err := f.parse(f.format(v))
			require.NoError(t, err, "%s: %s", f.path, s)
			require.Equal(t, v, back, "%s: %s", f.path, s)
		}
	}
}

func TestWhatFollows(t *testing.T) {
	c := Default()
	require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 15 * time.Second},
		[]time.Duration{c.Fetch.ConnectTimeout(), c.Fetch.HeaderTimeout(), c.Fetch.BodyTimeout()})
	require.Equal(t, 1_000_000, c.Frontier.MaxHosts())
	require.True(t, c.RateLimit.Enabled())
}
