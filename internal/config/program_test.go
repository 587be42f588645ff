package config

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/resilience/binder"
)

// TestDocsHaveTheStructsOfPrograms: what programs set is written from the table.
func TestDocsHaveTheStructsOfPrograms(t *testing.T) {
	groups, err := programSource()
	require.NoError(t, err)
	docpage.File(t, "settings.go", string(groups))
	docpage.Between(t, "options.go", "\t// settings: generated, see `make docs`\n\n", "\n\t// end of settings\n", string(programFields()))
}

// TestDocsHaveTheFieldOfEverySetting, or say that there is none.
func TestDocsHaveTheFieldOfEverySetting(t *testing.T) {
	table := "| setting | `Options` |\n|---|---|\n"
	for _, f := range fields() {
		to := "–"
		if name := ProgramField(f.path); name != "" {
			to = "`" + name + "`"
			if f.kind == kindBool && f.def == "true" {
				to += ", the opposite"
			}
		}
		if !f.noStruct {
			table += fmt.Sprintf("| `%s` | %s |\n", f.path, to)
		}
	}
	table += "| `hosts` | `Politeness.Hosts` |\n| `resilience` | `Resilience` |\n"
	docpage.Check(t, "docs/how-to/names-of-before.md", "options", table)
}

// programStruct is the struct that [programSource] and [programFields] write.
func programStruct() reflect.Type {
	tagged := func(name string, typ reflect.Type, tag string) reflect.StructField {
		return reflect.StructField{Name: name, Type: typ, Tag: reflect.StructTag(fmt.Sprintf("set:%q", tag))}
	}
	var capped, rule, all []reflect.StructField
	for _, f := range hostFields() {
		name := goName(reflect.TypeFor[Host](), f.path)
		switch section(f.path) {
		case "":
			rule = append(rule, tagged(name, at(new(Host), f.path).Type(), f.path))
		case capPath:
			capped = append(capped, tagged(name, at(new(Host), f.path).Type(), leaf(f.path)))
		}
	}
	rule = append(rule, tagged("Cap", reflect.StructOf(capped), capPath), tagged("Quota", reflect.StructOf(capped), quotaPath))
	groups := make(map[string][]reflect.StructField)
	for _, f := range fields() {
		if group, name, ok := f.program(); ok {
			groups[group] = append(groups[group], tagged(name, at(new(Config), f.path).Type(), f.path))
		}
	}
	groups["Politeness"] = append(groups["Politeness"], tagged("Hosts", reflect.SliceOf(reflect.StructOf(rule)), hostsPath))
	all = append(groups[""], tagged("Resilience", reflect.TypeFor[*binder.Model](), resiliencePath))
	for _, g := range programGroups {
		all = append(all, reflect.StructField{Name: g.name, Type: reflect.StructOf(groups[g.name])})
	}
	return reflect.StructOf(all)
}

func shake(r *rand.Rand, rows []field, root any, n int) {
	for range n {
		f := &rows[r.IntN(len(rows))]
		if _, isCrawl := root.(*Config); isCrawl {
			if _, _, ok := f.program(); !ok {
				continue
			}
		}
		texts := []string{f.def, f.min, f.max, f.example}
		if f.zero != "" {
			texts = append(texts, "0")
		}
		if f.kind == kindBool {
			texts = []string{"true", "false"}
		}
		texts = slices.Concat(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), f.enum)
		if len(texts) == 0 {
			continue
		}
		text := texts[r.IntN(len(texts))]
		if f.kind == kindList {
			set(root, f.path, []string{text})
			continue
		}
		set(root, f.path, f.bound(text))
	}
}

// TestProgramsSayAllSettings: what a program's structs are given by settings are these settings again, and structs
// that say nothing are the defaults.
func TestProgramsSayAllSettings(t *testing.T) {
	typ := programStruct()
	c, warnings, err := FromProgram("Options", reflect.New(typ).Interface())
	require.NoError(t, err)
	require.Equal(t, Default(), c)
	require.Equal(t, []string{"Options.Fetch.Contact is empty: operators cannot tell whom to write to; give Options.Fetch.Contact with a URL or a mail address"}, warnings)

	r, tried := rand.New(rand.NewPCG(1, 2)), 0
	for range 1000 {
		want := Default()
		shake(r, fields(), &want, 1+r.IntN(6))
		for range r.IntN(3) {
			h := Host{Match: fmt.Sprintf("h%d.test", r.IntN(1000)), InitialRPS: want.RateLimit.InitialRPS, MinRPS: want.RateLimit.MinRPS, MaxRPS: want.RateLimit.MaxRPS, MinDelay: want.RateLimit.MinDelay}
			shake(r, hostFields()[1:], &h, r.IntN(4))
			if !h.Quota.IsZero() && h.Quota.Kind == "" {
				h.Quota.Kind = quotaKind
			}
			want.Hosts = append(want.Hosts, h)
		}
		if want.Validate() != nil {
			continue
		}
		tried++
		options := reflect.New(typ)
		ToProgram(&want, options.Interface())
		got, _, err := FromProgram("Options", options.Interface())
		require.NoError(t, err, "%+v", want)
		require.Equal(t, want, got)
	}
	require.Greater(t, tried, 200)
}

// TestProgramsAreToldOfFields, and never of flags, paths, or a zero that means the default to them.
func TestProgramsAreToldOfFields(t *testing.T) {
	put := func(v reflect.Value, path string, value any) { // Hosts is the first of them
		for name := range strings.SplitSeq(path, ".") {
			if v = v.FieldByName(name); v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct {
				v.Grow(1)
				v.SetLen(1)
				v = v.Index(0)
			}
		}
		v.Set(reflect.ValueOf(value))
	}
	for _, tc := range []struct {
		set  map[string]any
		want string
	}{
		{map[string]any{"Politeness.MaxRPS": -1.0}, "Options.Politeness.MaxRPS: -1 is below 0.001; give a rate in requests per second between 0.001 and 1000000"},
		{map[string]any{"Politeness.MaxRPS": 1.0, "Politeness.MinRPS": 2.0}, "Options.Politeness.MinRPS: 2 is above Options.Politeness.MaxRPS, which is 1; lower Options.Politeness.MinRPS or raise Options.Politeness.MaxRPS"},
		{map[string]any{"Grace": time.Duration(1)}, "Options.Grace: 1ns is below 1s; give a duration with its unit, such as 1m30s, between 1s and 24h, or a negative number for as long as it takes"},
		{map[string]any{"Scope.Include": []string{"a", "("}}, "Options.Scope.Include[1]: "},
		{map[string]any{"Access.Key": "k"}, "Options.Access.Key: is the key of a certificate that is missing; give Options.Access.Cert as well"},
		{map[string]any{"Fleet.Job": "j"}, "Options.Fleet.Redis: is empty, and Options.Fleet.Job is not: give the Redis that processes share, by Options.Fleet.Redis"},
		{map[string]any{"Fleet.Job": "j", "Fleet.Redis": "redis://h:1", "StateDir": "d"}, `Options.StateDir: is "d", and a crawl of several processes is kept in Options.Fleet.Redis; leave out Options.StateDir`},
		{map[string]any{"Fetch.Headers": []string{"User-Agent: x"}}, "Options.Fetch.Headers[0]: User-Agent is set by Options.Fetch.UserAgent; write it there"},
		{map[string]any{"Politeness.Hosts.Match": ""}, "Options.Politeness.Hosts[0].Match: "},
		{map[string]any{"Politeness.Hosts.Match": "a.test", "Politeness.Hosts.Cap.Kind": "hope"}, "Options.Politeness.Hosts[0].Cap.Kind: "},
		{map[string]any{"Resilience": &binder.Model{Hedging: &binder.Hedging{}}}, "Options.Resilience.hedging: is not for a crawl"},
	} {
		options := reflect.New(programStruct())
		for path, value := range tc.set {
			put(options.Elem(), path, value)
		}
		_, _, err := FromProgram("Options", options.Interface())
		require.ErrorContains(t, err, tc.want)
		require.NotRegexp(t, `--[a-z]|[a-z]+\.[a-z_]+_[a-z]|ratelimit`, err.Error())
	}
	// A value that is left out makes room for one that is not.
	options := reflect.New(programStruct())
	put(options.Elem(), "Politeness.MaxRPS", 0.05)
	c, _, err := FromProgram("Options", options.Interface())
	require.NoError(t, err)
	require.Equal(t, []float64{0.05, 0.05, 0.05}, []float64{c.RateLimit.MinRPS, c.RateLimit.InitialRPS, c.RateLimit.MaxRPS})
	require.Equal(t, time.Duration(0), c.RateLimit.MinDelay)
	require.Equal(t, "Politeness.Hosts[2].Headers[1]", ProgramField(document.Item("hosts", 2)+".headers[1]"))
}
