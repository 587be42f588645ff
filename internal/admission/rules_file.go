package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// What the file of a registry calls rules and exclusions.
const (
	rulesSection   = "rules"
	excludeSection = "exclude"
)

// ruleForm is a rule as files spell it.
type ruleForm struct {
	Name        string   `json:"name"`
	Path        string   `json:"path"`
	Methods     []string `json:"methods,omitempty"`
	Key         string   `json:"key,omitempty"`
	Plans       []string `json:"plans,omitempty"`
	Cost        int64    `json:"cost,omitempty"`
	CostBy      string   `json:"cost_by,omitempty"`
	Concurrency int64    `json:"concurrency,omitempty"`
	Wait        string   `json:"wait,omitempty"` // as time.ParseDuration reads it
	Shadow      bool     `json:"shadow,omitempty"`
	OnError     OnError  `json:"on_error,omitempty"`
}

// MarshalJSON writes the rule as files have it.
func (r Rule) MarshalJSON() ([]byte, error) {
	f := ruleForm{
		r.Name, r.Path, r.Methods, r.Key, r.Plans, r.Cost, r.CostBy, r.Concurrency, "", r.Shadow, r.OnError,
	}
	if r.Wait != 0 {
		f.Wait = r.Wait.String()
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads a rule as files have it. A field that there is not is an error.
// What the fields say is not looked at here but by [RuleSet.Replace].
func (r *Rule) UnmarshalJSON(text []byte) error {
	var f ruleForm
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return err
	}
	read := Rule{
		Name: f.Name, Path: f.Path, Methods: f.Methods, Key: f.Key, Plans: f.Plans, Cost: f.Cost,
		CostBy: f.CostBy, Concurrency: f.Concurrency, Shadow: f.Shadow, OnError: f.OnError,
	}
	if f.Wait != "" {
		var err error
		if read.Wait, err = time.ParseDuration(f.Wait); err != nil {
			return &RuleError{"wait", fmt.Sprintf("%q", f.Wait), `write a duration with its unit, such as "2s"`}
		}
	}
	*r = read
	return nil
}

// errNoRules is for what should have rules. That there are none lets everybody in, so it
// has to be said: a file that was cut short does not mean it.
var errNoRules = errors.New("rules is missing: give a list, an empty one if there are to be no rules")

// LoadFile puts the plans, rules and exclusions of a file in the place of all others, or,
// if it returns an error, nothing. The file is a registry's, with two sections more:
//
//	plans:
//	  - {name: login, kind: sliding-window, capacity: 5, window: 1m}
//	rules:
//	  - {name: login, path: /api/auth/login, key: ip, plans: [login]}
//	exclude:
//	  - /api/health
//
// Errors begin with path and tell where in it. Each request is judged by the file before
// or by this one, and by nothing in between.
func (s *RuleSet) LoadFile(path string) error {
	fresh := &Registry{}
	if err := fresh.LoadFile(path, rulesSection, excludeSection); err != nil {
		return err
	}
	var rules []Rule
	var exclude []string
	if _, err := fresh.Section(rulesSection, &rules); err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	if _, err := fresh.Section(excludeSection, &exclude); err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	if rules == nil {
		return fmt.Errorf("load %s: %w", path, errNoRules)
	}
	err := s.change(func(d *draft) error {
		*d = draft{plans: fresh.current(), rules: rules, exclude: exclude}
		return nil
	}, nil)
	if err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}

// Save writes plans, rules and exclusions into a file; see [Registry.Save].
func (s *RuleSet) Save(path string) error { return s.save(path, s.inForce()) }

// save writes what is in force, or about to be, beside the registry's other sections.
func (s *RuleSet) save(path string, l limits) error {
	reg := s.cfg.Registry
	reg.mu.Lock()
	sections := maps.Clone(reg.sections)
	reg.mu.Unlock()
	if sections == nil {
		sections = map[string]any{}
	}
	for name, value := range map[string]any{rulesSection: l.table.specs(), excludeSection: l.table.excludeSpecs()} {
		tree, err := treeOf(value)
		if err != nil { // it is of text and numbers
			return fmt.Errorf("save %s: %w", path, err)
		}
		sections[name] = tree
	}
	return save(path, l.plans.plans, sections)
}
