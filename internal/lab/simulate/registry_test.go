package simulate

import (
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mine is a scenario that is not built in.
func mine(name string) Scenario {
	return Scenario{Name: name, Capacity: flat(1), New: func(*rand.Rand) Server { return &pages{rnd: source()} }}
}

func names(scs []Scenario) string {
	var b []string
	for _, sc := range scs {
		b = append(b, sc.Name)
	}
	return strings.Join(b, " ")
}

func TestRegistryTakesOthersIn(t *testing.T) {
	r := NewRegistry()
	require.NoError(t, r.Add(mine("ours")))
	require.NoError(t, r.Add(mine("Ra"))) // no number
	require.Len(t, r.Names(), len(Scenarios())+2)
	require.Equal(t, "Ra", r.Names()[len(Scenarios())+1])
	for patterns, want := range map[string]string{
		"ours":         "ours",
		"o* S10 ours":  "ours S10", // each once, in the order of the patterns
		"S6[ab] S6a":   "S6a S6b",
		"R7 R0 ours":   "R7 R0 ours",
		"Ra R1844 S1a": "Ra R1844 S1a",
	} {
		found, err := r.Select(strings.Fields(patterns)...)
		require.NoError(t, err)
		require.Equal(t, want, names(found), patterns)
	}
	all, err := r.Select()
	require.NoError(t, err)
	require.Equal(t, r.Names(), strings.Fields(names(all)))
	drawn, err := r.Select("R7")
	require.NoError(t, err)
	require.Equal(t, Random(7).Doc, drawn[0].Doc)
	require.Len(t, NewRegistry().Names(), len(Scenarios()), "what one adds no other sees")
}

// What Select hands out is the caller's: shortening a run shortens nobody else's.
func TestSelectionIsACopy(t *testing.T) {
	r := NewRegistry()
	all, err := r.Select()
	require.NoError(t, err)
	all[0].Duration = MinDuration
	again, err := r.Select(all[0].Name)
	require.NoError(t, err)
	require.Zero(t, again[0].Duration)
}

func TestRegistryRejects(t *testing.T) {
	for name, want := range map[string]string{
		"S1a": "it is taken", "R7": "drawn at random", "": "want one without", "a b": "want one without", "S*": "want one without", `a\`: "want one without",
	} {
		r := NewRegistry()
		require.ErrorContains(t, r.Add(mine(name)), want, "%q", name)
		require.Len(t, r.Names(), len(Scenarios()))
	}
	sc := mine("ours")
	sc.New = nil
	require.ErrorContains(t, (&Registry{}).Add(sc), "New is nil")
}

func TestSelectTellsWhatIsUnknown(t *testing.T) {
	r := NewRegistry()
	for _, pattern := range []string{"S99", "R07", "R-1", "R", "R99999999999999999999"} {
		_, err := r.Select("S1a", pattern)
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown, pattern)
		require.Equal(t, pattern, unknown.Pattern)
	}
	_, err := r.Select("S[")
	require.ErrorIs(t, err, path.ErrBadPattern)
	require.ErrorContains(t, err, `"S["`)
	_, err = (&Registry{}).Select("[")
	require.ErrorIs(t, err, path.ErrBadPattern, "though there is nothing to match")
}

// Whatever a pattern is, Select picks scenarios that match it or says why not.
func FuzzSelect(f *testing.F) {
	for _, pattern := range []string{"S1*", "R7", "R00", "[", "\\", "S1[a-c]", ""} {
		f.Add(pattern)
	}
	r := NewRegistry()
	f.Fuzz(func(t *testing.T, pattern string) {
		found, err := r.Select(pattern)
		require.Equal(t, err == nil, len(found) > 0)
		for _, sc := range found {
			ok, err := path.Match(pattern, sc.Name)
			require.NoError(t, err)
			require.True(t, ok)
		}
	})
}
