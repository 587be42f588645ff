package config

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
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
	field := func(v reflect.Value, names ...string) reflect.Value {
		for _, name := range names {
			v = v.FieldByName(name)
		}
		return v
	}
	hosts := func(v reflect.Value) reflect.Value {
		list := field(v, "Politeness", "Hosts")
		list.Set(reflect.MakeSlice(list.Type(), 1, 1))
		return list.Index(0)
	}
	for _, tc := range []struct {
		change func(v reflect.Value)
		want   string
	}{
		{func(v reflect.Value) { field(v, "Politeness", "MaxRPS").SetFloat(-1) }, "Options.Politeness.MaxRPS: -1 is below 0.001; give a rate in requests per second between 0.001 and 1000000"},
		{func(v reflect.Value) {
			field(v, "Politeness", "MaxRPS").SetFloat(1)
			field(v, "Politeness", "MinRPS").SetFloat(2)
		}, "Options.Politeness.MinRPS: 2 is above Options.Politeness.MaxRPS, which is 1; lower Options.Politeness.MinRPS or raise Options.Politeness.MaxRPS"},
		{func(v reflect.Value) { field(v, "Grace").SetInt(1) }, "Options.Grace: 1ns is below 1s; give a duration with its unit, such as 1m30s, between 1s and 24h, or a negative number for as long as it takes"},
		{func(v reflect.Value) { field(v, "Scope", "Include").Set(reflect.ValueOf([]string{"a", "("})) }, "Options.Scope.Include[1]: "},
		{func(v reflect.Value) { field(v, "Access", "Key").SetString("k") }, "Options.Access.Key: is the key of a certificate that is missing; give Options.Access.Cert as well"},
		{func(v reflect.Value) { field(v, "Fleet", "Job").SetString("j") }, "Options.Fleet.Redis: is empty, and Options.Fleet.Job is not: give the Redis that processes share, by Options.Fleet.Redis"},
		{func(v reflect.Value) {
			field(v, "Fleet", "Job").SetString("j")
			field(v, "Fleet", "Redis").SetString("redis://h:1")
			field(v, "StateDir").SetString("d")
		}, `Options.StateDir: is "d", and a crawl of several processes is kept in Options.Fleet.Redis; leave out Options.StateDir`},
		{func(v reflect.Value) { field(v, "Fetch", "Headers").Set(reflect.ValueOf([]string{"User-Agent: x"})) }, "Options.Fetch.Headers[0]: User-Agent is set by Options.Fetch.UserAgent; write it there"},
		{func(v reflect.Value) { hosts(v) }, "Options.Politeness.Hosts[0].Match: "},
		{func(v reflect.Value) {
			h := hosts(v)
			h.FieldByName("Match").SetString("a.test")
			h.FieldByName("Cap").FieldByName("Kind").SetString("hope")
		}, "Options.Politeness.Hosts[0].Cap.Kind: "},
		{func(v reflect.Value) {
			v.FieldByName("Resilience").Set(reflect.ValueOf(&binder.Model{Hedging: &binder.Hedging{}}))
		}, "Options.Resilience.hedging: is not for a crawl"},
	} {
		options := reflect.New(programStruct())
		tc.change(options.Elem())
		_, _, err := FromProgram("Options", options.Interface())
		require.ErrorContains(t, err, tc.want)
		require.NotRegexp(t, `--[a-z]|[a-z]+\.[a-z_]+_[a-z]|ratelimit`, err.Error())
	}
	// A value that is left out makes room for one that is not.
	options := reflect.New(programStruct())
	field(options.Elem(), "Politeness", "MaxRPS").SetFloat(0.05)
	c, _, err := FromProgram("Options", options.Interface())
	require.NoError(t, err)
	require.Equal(t, []float64{0.05, 0.05, 0.05}, []float64{c.RateLimit.MinRPS, c.RateLimit.InitialRPS, c.RateLimit.MaxRPS})
	require.Equal(t, time.Duration(0), c.RateLimit.MinDelay)
	require.Equal(t, "Politeness.Hosts[2].Headers[1]", ProgramField(document.Item("hosts", 2)+".headers[1]"))
}
