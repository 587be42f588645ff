package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// ruleForm is a rule as files spell it.
type ruleForm struct {
	Name        string   `json:"name" yaml:"name"`
	Path        string   `json:"path" yaml:"path"`
	Methods     []string `json:"methods,omitempty" yaml:"methods,omitempty"`
	Key         string   `json:"key,omitempty" yaml:"key,omitempty"`
	Plans       []string `json:"plans,omitempty" yaml:"plans,omitempty"`
	Cost        int64    `json:"cost,omitempty" yaml:"cost,omitempty"`
	CostBy      string   `json:"cost_by,omitempty" yaml:"cost_by,omitempty"`
	Concurrency int64    `json:"concurrency,omitempty" yaml:"concurrency,omitempty"`
	Wait        string   `json:"wait,omitempty" yaml:"wait,omitempty"` // as time.ParseDuration reads it
	Shadow      bool     `json:"shadow,omitempty" yaml:"shadow,omitempty"`
	OnError     OnError  `json:"on_error,omitempty" yaml:"on_error,omitempty"`
}

func (r Rule) form() ruleForm {
	f := ruleForm{
		r.Name, r.Path, r.Methods, r.Key, r.Plans, r.Cost, r.CostBy, r.Concurrency, "", r.Shadow, r.OnError,
	}
	if r.Wait != 0 {
		f.Wait = r.Wait.String()
	}
	return f
}

// MarshalJSON writes the rule as files have it.
func (r Rule) MarshalJSON() ([]byte, error) { return json.Marshal(r.form()) }

// MarshalYAML writes the rule as files have it.
func (r Rule) MarshalYAML() (any, error) { return r.form(), nil }

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
