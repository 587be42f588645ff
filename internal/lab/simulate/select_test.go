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

func TestSelect(t *testing.T) {
	scs := append(Scenarios(), mine("ours"), mine("Ra")) // no number
	for patterns, want := range map[string]string{
		"ours":         "ours",
		"o* S10 ours":  "ours S10", // each once, in the order of the patterns
		"S1[a-z]":      "S1a S1b S1c S1d S1e",
		"S6[ab] S6a":   "S6a S6b",
		"R7 R0 ours":   "R7 R0 ours",
		"Ra R1844 S1a": "Ra R1844 S1a",
	} {
		found, err := Select(scs, strings.Fields(patterns)...)
		require.NoError(t, err)
		require.Equal(t, want, names(found), patterns)
	}
	all, err := Select(scs)
	require.NoError(t, err)
	require.Equal(t, Names(scs), strings.Fields(names(all)))
	drawn, err := Select(scs, "R7")
	require.NoError(t, err)
	require.Equal(t, Random(7).Doc, drawn[0].Doc)
}

// What Select returns is the caller's: shortening a run shortens nobody else's.
func TestSelectionIsACopy(t *testing.T) {
	scs := Scenarios()
	all, err := Select(scs)
	require.NoError(t, err)
	all[0].Duration = MinDuration
	require.Zero(t, scs[0].Duration)
}

func TestSelectTellsWhatIsUnknown(t *testing.T) {
	scs := Scenarios()
	for _, pattern := range []string{"S99", "R07", "R-1", "R", "R99999999999999999999"} {
		_, err := Select(scs, "S1a", pattern)
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown, pattern)
		require.Equal(t, pattern, unknown.Pattern)
	}
	_, err := Select(scs, "S[")
	require.ErrorIs(t, err, path.ErrBadPattern)
	require.ErrorContains(t, err, `"S["`)
	_, err = Select(nil, "[")
	require.ErrorIs(t, err, path.ErrBadPattern, "though there is nothing to match")
}

// Whatever a pattern is, Select picks scenarios that match it or says why not.
func FuzzSelect(f *testing.F) {
	for _, pattern := range []string{"S1*", "R7", "R00", "[", "\\", "S1[a-c]", ""} {
		f.Add(pattern)
	}
	scs := Scenarios()
	f.Fuzz(func(t *testing.T, pattern string) {
		found, err := Select(scs, pattern)
		require.Equal(t, err == nil, len(found) > 0)
		for _, sc := range found {
			ok, err := path.Match(pattern, sc.Name)
			require.NoError(t, err)
			require.True(t, ok)
		}
	})
}
