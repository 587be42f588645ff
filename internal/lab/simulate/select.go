package simulate

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Names are the names of scenarios.
func Names(scs []Scenario) []string {
	names := make([]string, len(scs))
	for i := range scs {
		names[i] = scs[i].Name
	}
	return names
}

// Select returns copies of those of scs whose names match any of the patterns of [path.Match],
// each once, in the order of the patterns; all of them if there is no pattern. "R7" is what
// [Random] draws from seed 7. It fails with an [UnknownError] if a pattern matches nothing, and
// with [path.ErrBadPattern] if one is malformed.
func Select(scs []Scenario, patterns ...string) ([]Scenario, error) {
	if len(patterns) == 0 {
		patterns = []string{"*"}
	}
	var picked []Scenario
	seen := make(map[string]bool)
	for _, p := range patterns {
		found, err := match(scs, p)
		if err != nil {
			return nil, err
		}
		for _, sc := range found {
			if !seen[sc.Name] {
				seen[sc.Name] = true
				picked = append(picked, sc)
			}
		}
	}
	return picked, nil
}

func match(scs []Scenario, pattern string) ([]Scenario, error) {
	if seed, ok := drawnBy(pattern); ok {
		return []Scenario{Random(seed)}, nil
	}
	if _, err := path.Match(pattern, ""); errors.Is(err, path.ErrBadPattern) {
		return nil, fmt.Errorf("simulate: scenario pattern %q: %w", pattern, err)
	}
	var found []Scenario
	for _, sc := range scs {
		if ok, _ := path.Match(pattern, sc.Name); ok { // the only error is above
			found = append(found, sc)
		}
	}
	if len(found) == 0 {
		return nil, &UnknownError{pattern}
	}
	return found, nil
}

// drawnBy is the seed from which [Random] draws the scenario of that name, R and the number
// without leading zeros.
func drawnBy(name string) (seed uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "R")
	if !ok {
		return 0, false
	}
	seed, err := strconv.ParseUint(digits, 10, 64)
	return seed, err == nil && strconv.FormatUint(seed, 10) == digits
}

// UnknownError is a pattern that matches no scenario.
type UnknownError struct{ Pattern string }

// Error says it in words.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("simulate: no scenario matches %q", e.Pattern)
}
