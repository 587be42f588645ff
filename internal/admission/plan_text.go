package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// planForm is a plan as files spell it.
type planForm struct {
	Name            string  `json:"name" yaml:"name"`
	Kind            Kind    `json:"kind" yaml:"kind"`
	Capacity        int64   `json:"capacity" yaml:"capacity"`
	TokensPerSecond float64 `json:"tokens_per_second,omitempty" yaml:"tokens_per_second,omitempty"`
	Window          string  `json:"window,omitempty" yaml:"window,omitempty"` // as time.ParseDuration reads it
}

func (p Plan) form() planForm {
	f := planForm{Name: p.Name, Kind: p.Kind, Capacity: p.Capacity, TokensPerSecond: p.TokensPerSecond}
	if p.Window != 0 {
		f.Window = p.Window.String()
	}
	return f
}

// MarshalJSON writes the plan as files have it.
func (p Plan) MarshalJSON() ([]byte, error) { return json.Marshal(p.form()) }

// MarshalYAML writes the plan as files have it.
func (p Plan) MarshalYAML() (any, error) { return p.form(), nil }

// UnmarshalJSON reads a plan as files have it and settles it. A field that
// there is not is an error; its errors about fields are [*PlanError].
func (p *Plan) UnmarshalJSON(text []byte) error {
	tree, err := jsonTree(bytes.NewReader(text))
	if err != nil {
		return err
	}
	read, err := planOf(tree)
	if err == nil {
		*p = read
	}
	return err
}

// plansOf is the plans of a file.
func plansOf(tree any) (*planSet, error) {
	list, ok := tree.([]any)
	if !ok && tree != nil {
		return nil, errors.New("plans is no list: write one plan per entry")
	}
	plans := make([]Plan, len(list))
	for i := range list {
		var err error
		if plans[i], err = planOf(list[i]); err != nil {
			return nil, fmt.Errorf("plans[%d].%w", i, err)
		}
	}
	return newPlanSet(plans)
}

// planOf is a plan by the values of its fields, settled.
func planOf(tree any) (Plan, error) {
	fields, ok := tree.(map[string]any)
	if !ok {
		return Plan{}, &PlanError{"name", "missing", "write a plan as a mapping of its fields"}
	}
	var p Plan
	var err error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "name":
			p.Name, err = textOf(name, value)
		case "kind":
			var kind string
			kind, err = textOf(name, value)
			p.Kind = Kind(kind)
		case "capacity":
			p.Capacity, err = wholeOf(name, value)
		case "tokens_per_second":
			p.TokensPerSecond, err = numberOf(name, value)
		case "window":
			p.Window, err = durationOf(name, value)
		default:
			err = &PlanError{name, "not known", "use name, kind, capacity, tokens_per_second, window"}
		}
		if err != nil {
			return Plan{}, err
		}
	}
	return p.Settle()
}

func textOf(field string, value any) (string, error) {
	if s, ok := value.(string); ok {
		return s, nil
	}
	return "", &PlanError{field, fmt.Sprint(value), "write a text, in quotes if it looks like something else"}
}

func numberOf(field string, value any) (float64, error) {
	switch v := value.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return f, nil
		}
	case int:
		return float64(v), nil
	case float64:
		return v, nil
	}
	return 0, &PlanError{field, fmt.Sprintf("%#v", value), "write a number"}
}

// wholeOf is a whole number that a double can say, which is far more than a capacity is.
func wholeOf(field string, value any) (int64, error) {
	f, err := numberOf(field, value)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		if _, ok := value.(string); ok {
			value = fmt.Sprintf("%q", value) // else nobody sees what is wrong with "60"
		}
		return 0, &PlanError{field, value, fmt.Sprintf("use a whole number from 1 to %d", MaxCapacity)}
	}
	return int64(f), nil
}

func durationOf(field string, value any) (time.Duration, error) {
	if s, ok := value.(string); ok {
		if d, err := time.ParseDuration(s); err == nil {
			return d, nil
		}
	}
	return 0, &PlanError{field, fmt.Sprint(value), `write a duration with its unit, such as "1m" or "24h"`}
}
