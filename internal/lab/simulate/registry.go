package simulate

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Registry is a set of scenarios to choose from by name. The zero Registry is empty;
// [NewRegistry] has the built-in ones. It may be read by many goroutines while nobody
// adds to it.
type Registry struct {
	scs []Scenario // in the order in which they were added
}

// NewRegistry returns a registry of the built-in scenarios, to which others may be
// added. It is a new one each time: what one caller adds no other sees.
func NewRegistry() *Registry { return &Registry{scs: Scenarios()} }

// Add adds a scenario. It fails if the scenario could not be run, or if its name is
// taken, is nobody's to take (R and a number are drawn by [Random]) or would be read
// as a pattern.
func (r *Registry) Add(sc Scenario) error {
	checked := sc
	checked.setDefaults()
	if err := checked.validate(); err != nil {
		return err
	}
	_, drawn := drawnBy(sc.Name)
	switch {
	case sc.Name == "" || strings.ContainsAny(sc.Name, `*?[]\/ `):
		return fmt.Errorf(`simulate: scenario name %q: want one without spaces and * ? [ ] \ /`, sc.Name)
	case drawn:
		return fmt.Errorf("simulate: scenario name %q: want another; R and a number are drawn at random", sc.Name)
	case slices.Contains(r.Names(), sc.Name):
		return fmt.Errorf("simulate: scenario name %q: want another; it is taken", sc.Name)
	}
	r.scs = append(r.scs, sc)
	return nil
}

// Names are the names of the scenarios in the order in which they were added.
func (r *Registry) Names() []string {
	names := make([]string, len(r.scs))
	for i := range r.scs {
		names[i] = r.scs[i].Name
	}
	return names
}

// Select returns the scenarios whose names match any of the patterns of [path.Match],
// each once, in the order of the patterns; all of them if there is no pattern. "R7"
// is what [Random] draws from seed 7. It fails with an [UnknownError] if a pattern
// matches nothing, and with [path.ErrBadPattern] if one is malformed.
func (r *Registry) Select(patterns ...string) ([]Scenario, error) {
	if len(patterns) == 0 {
		return slices.Clone(r.scs), nil
	}
	var picked []Scenario
	seen := make(map[string]bool)
	for _, p := range patterns {
		found, err := r.match(p)
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

func (r *Registry) match(pattern string) ([]Scenario, error) {
	if seed, ok := drawnBy(pattern); ok {
		return []Scenario{Random(seed)}, nil
	}
	return Find(r.scs, pattern)
}

// drawnBy is the seed from which [Random] draws the scenario of that name. Another
// spelling of the number would give the scenario a second name.
func drawnBy(name string) (seed uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "R")
	if !ok {
		return 0, false
	}
	seed, err := strconv.ParseUint(digits, 10, 64)
	return seed, err == nil && strconv.FormatUint(seed, 10) == digits
}

// UnknownError is a pattern that matches no scenario. Callers branch on it to suggest
// what may have been meant.
type UnknownError struct{ Pattern string }

// Error says it in words.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("simulate: no scenario matches %q", e.Pattern)
}

// Find returns those of scs whose names match the pattern of [path.Match], such as
// "S1?" or "*". It fails with [path.ErrBadPattern] if the pattern is malformed, and
// with an [UnknownError] if nothing matches.
func Find(scs []Scenario, pattern string) ([]Scenario, error) {
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
