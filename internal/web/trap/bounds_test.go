package trap

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// However many patterns, trials, parts and ids there are, there is room.
func TestBounds(t *testing.T) {
	j := newJudge(t, Config{})
	for i := range maxPatterns {
		j.RecordVisit(parse(t, fmt.Sprintf("http://h%d.test/x/%s/", i/4, []string{"a", "b", "c", "d"}[i%4])), "")
	}
	require.Equal(t, maxPatterns, j.patterns.Len())
	j = newJudge(t, Config{})
	for i := range 2 * maxTrials {
		for n := range 20 {
			see(t, j, fmt.Sprintf("http://h%d.test/x/%d", i, n), "Title", "all pages of this site say the very same thing")
		}
	}
	require.Equal(t, maxTrials, j.trials.Len())
	for _, p := range j.trials.Keys() {
		require.NotNil(t, p.trial)
	}
	trying := int32(0)
	for _, p := range j.patterns.Values() {
		if p.trying {
			trying++
		}
	}
	require.Equal(t, trying, j.trying.Load())
	s := newSessions()
	for i := range 3 * maxParts {
		s.open(parse(t, fmt.Sprintf("/x?name%d=0a1b2c3d4e5f6071", i)), 0)
	}
	require.Equal(t, maxParts, s.parts.Len())
}

// A pattern that was left stays so when its trial's room is needed, without probes.
func TestLeftWithoutRoom(t *testing.T) {
	j := newJudge(t, Config{})
	stale(t, j, "http://a.test/n/%d", 0, 16+16+24, "all pages of this site say the very same thing")
	require.Equal(t, int32(1), j.skipped.Load())
	for i := range maxTrials + 1 {
		stale(t, j, fmt.Sprintf("http://h%d.test/x/%%d", i), 0, 20, "all pages of this site say the very same thing")
	}
	for i := range 1000 {
		require.Equal(t, PatternBudget, j.CheckQueued(parse(t, fmt.Sprintf("http://a.test/n/%d", 5000+i))))
	}
	// Patterns that were left are not forgotten while URLs of them are found.
	for i := range maxPatterns {
		j.RecordVisit(parse(t, fmt.Sprintf("http://x%d.test/", i)), "")
		if i%10_000 == 0 {
			j.CheckLink(parse(t, "http://a.test/n/x"), thisYear)
		}
	}
	require.Equal(t, int32(1), j.skipped.Load())
}
