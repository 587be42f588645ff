package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// free are the rows whose values bound no other and that a flag can set, if only --set, so
// that a random one in each layer is valid.
func free() []field {
	var rows []field
	for _, f := range fields() {
		switch {
		case f.noStruct, f.kind == kindList, f.kind == kindText, section(f.path) == "ratelimit" && f.flag == "":
		case f.path == "ratelimit.initial_rps", f.path == "ratelimit.max_rps", section(f.path) == "log":
		case f.path == "output.format": // warc wants a directory
		default:
			rows = append(rows, f)
		}
	}
	return rows
}

// anyValue draws a valid value as it would be written.
func anyValue(t *rapid.T, f *field) string {
	switch f.kind {
	case kindBool:
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")
	case kindChoice:
		return rapid.SampledFrom(f.enum).Draw(t, "choice")
	case kindInt:
		lo, hi := f.bound(f.min).(int64), f.bound(f.max).(int64)
		return fmt.Sprint(rapid.Int64Range(lo, hi).Draw(t, "int"))
	case kindRate, kindNumber:
		lo, _ := number(f.bound(f.min))
		hi, _ := number(f.bound(f.max))
		return f.format(rapid.Float64Range(lo, hi).Draw(t, "number"))
	}
	return rapid.SampledFrom([]string{f.min, f.max, f.def}).Draw(t, "sample")
}

// TestLayersAgainstAModel lays random values of random settings over each other and
// compares with the obvious: per setting, the last layer that has it.
func TestLayersAgainstAModel(t *testing.T) {
	rows := free()
	require.Greater(t, len(rows), 20)
	rapid.Check(t, func(t *rapid.T) {
		var file strings.Builder
		var src Sources
		model, from := map[string]string{}, map[string]string{}
		for i := range rows {
			f := &rows[i]
			layers := rapid.IntRange(0, 7).Draw(t, "layers")
			if layers&1 != 0 {
				v := anyValue(t, f)
				fmt.Fprintf(&file, "%s\n", asLine(f.path, v))
				model[f.path], from[f.path] = v, fromFile
			}
			if layers&2 != 0 {
				v := anyValue(t, f)
				src.Env = append(src.Env, f.env()+"="+v)
				model[f.path], from[f.path] = v, fromEnv
			}
			if layers&4 != 0 {
				v := anyValue(t, f)
				src.Flags = append(src.Flags, flagFor(f, v))
				model[f.path], from[f.path] = v, fromFlag
			}
		}
		src.File, src.Reader = "m.yaml", strings.NewReader(merge(file.String()))
		l, err := Load(src)
		require.NoError(t, err)
		for i := range rows {
			f := &rows[i]
			want, source := f.bound(f.def), fromDefault
			if v, ok := model[f.path]; ok {
				want, source = f.bound(v), from[f.path]
			}
			require.Equal(t, want, get(&l.Config, f.path), f.path)
			require.Equal(t, source, l.Origins[f.path].Source, f.path)
		}
	})
}

// flagFor is the flag of a row, or --set where it has none.
func flagFor(f *field, value string) FlagValue {
	if f.flag == "" {
		return FlagValue{setFlag, f.path + "=" + value}
	}
	return FlagValue{f.flag, value}
}

// asLine is one line "section key value", which merge turns into a file.
func asLine(path, value string) string {
	return fmt.Sprintf("%s %s %s", section(path), leaf(path), value)
}

// merge groups the lines of each section under one heading.
func merge(lines string) string {
	sections := map[string]string{}
	for line := range strings.Lines(lines) {
		s, rest, _ := strings.Cut(line, " ")
		key, value, _ := strings.Cut(strings.TrimSpace(rest), " ")
		indent := "  "
		if s == "" {
			indent = ""
		}
		sections[s] += indent + key + ": " + value + "\n"
	}
	out := sections[""]
	delete(sections, "")
	for s, body := range sections {
		out += s + ":\n" + body
	}
	return out
}

// TestRatesAlwaysSettle draws any of the three rates in any layer: either the result is
// in order with every written value kept, or two written ones are named.
func TestRatesAlwaysSettle(t *testing.T) {
	names := []string{"min_rps", "initial_rps", "max_rps"}
	f := find(fields(), "ratelimit.max_rps")
	rapid.Check(t, func(t *rapid.T) {
		var src Sources
		written := map[string]float64{}
		for _, name := range names {
			if rapid.Bool().Draw(t, name+" written") {
				x := rapid.Float64Range(0.001, 10000).Draw(t, name)
				written[name] = x
				src.Env = append(src.Env, find(fields(), "ratelimit."+name).env()+"="+f.format(x))
			}
		}
		inOrder := true
		for i, low := range names {
			for _, high := range names[i+1:] {
				a, okA := written[low]
				b, okB := written[high]
				inOrder = inOrder && (!okA || !okB || a <= b)
			}
		}
		l, err := Load(src)
		if !inOrder {
			require.ErrorContains(t, err, "is above ratelimit.")
			return
		}
		require.NoError(t, err)
		r := l.Config.RateLimit
		require.LessOrEqual(t, r.MinRPS, r.InitialRPS)
		require.LessOrEqual(t, r.InitialRPS, r.MaxRPS)
		for name, x := range written {
			require.InDelta(t, x, get(&l.Config, "ratelimit."+name), 0, name)
		}
	})
}
