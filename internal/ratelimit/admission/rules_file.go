package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
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
// Errors begin with path and tell where in it. A request that comes at the very moment
// may be judged by an old rule and the new plans; if they do not have its plan, its
// OnError decides.
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
	s.admin.Lock() // an administrator's change that is taken back would take this back too
	defer s.admin.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	table, err := s.compile(fresh, rules, exclude)
	if err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	if err := s.cfg.Registry.Replace(fresh.Plans()...); err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	s.table.Store(table)
	return nil
}

// Save writes plans, rules and exclusions into a file; see [Registry.Save].
func (s *RuleSet) Save(path string) error {
	table := s.table.Load()
	reg := s.cfg.Registry
	if err := reg.SetSection(rulesSection, table.specs()); err != nil {
		return err
	}
	if err := reg.SetSection(excludeSection, table.excludeSpecs()); err != nil {
		return err
	}
	return reg.Save(path)
}
