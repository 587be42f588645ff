package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// The sections of a file.
const (
	plansSection   = "plans"
	rulesSection   = "rules"
	excludeSection = "exclude"
)

// maxFile bounds how much of a file is read, in bytes: ten thousand plans take two megabytes.
const maxFile = 16 << 20

var (
	// errNoRules is returned for a file without the section rules. A set without rules allows every request, so a file
	// must say that explicitly, by an empty list: a file that was cut short must not mean it.
	errNoRules   = errors.New("rules is missing: give a list, an empty one if there are to be no rules")
	errExtension = errors.New("the format is not known: end the file's name in .json, .yaml or .yml")
	errMore      = errors.New("there is more after the first value: remove it")
)

// LoadFile replaces all plans, rules and exclusions by those of a file or, if it returns an error, nothing. The file is
// JSON if its name ends in ".json", and YAML if it ends in ".yaml" or ".yml":
//
//	plans:
//	  - {name: login, kind: sliding-window, capacity: 5, window: 1m}
//	rules:
//	  - {name: login, path: /api/auth/login, key: ip, plans: [login]}
//	exclude:
//	  - /api/health
//
// Errors begin with path and name the place in the file, as `plans[2].capacity`. Errors about fields are [*FieldError];
// the error of a missing file is fs.ErrNotExist. Each request is decided by the set before or by the set of this file,
// and never by a mixture.
func (s *RuleSet) LoadFile(path string) error {
	fresh, err := readDraft(path)
	if err == nil {
		err = s.change(func(d *draft) error { *d = fresh; return nil }, nil)
	}
	if err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}

func readDraft(path string) (d draft, err error) {
	tree, err := readTree(path)
	if err != nil {
		return d, err
	}
	file, ok := tree.(map[string]any)
	if !ok && tree != nil { // tree is nil if the file is empty
		return d, errors.New(`it is no mapping: begin it with "plans:"`)
	}
	for name := range file {
		if name != plansSection && name != rulesSection && name != excludeSection {
			return d, fmt.Errorf("%s is not known: use plans, rules, exclude", name)
		}
	}
	list, ok := file[plansSection].([]any)
	if !ok && file[plansSection] != nil {
		return d, errors.New("plans is no list: write one plan per entry")
	}
	d.plans = make([]Plan, len(list))
	for i := range list {
		if d.plans[i], err = planOf(list[i]); err != nil {
			return d, fmt.Errorf("plans[%d].%w", i, err)
		}
	}
	err = errors.Join(readSection(file, rulesSection, &d.rules), readSection(file, excludeSection, &d.exclude))
	if err == nil && d.rules == nil {
		err = errNoRules
	}
	return d, err
}

// readSection decodes a section into value, as encoding/json would decode the same section in JSON.
func readSection(file map[string]any, name string, value any) error {
	text, err := json.Marshal(file[name])
	if err == nil { // an error means a key that is not text, which YAML allows
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func readTree(path string) (tree any, err error) {
	isYAML, err := formatOf(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err) // the cause alone: LoadFile adds the path
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("it is larger than %d bytes: split it", maxFile)
	case isYAML:
		err = yaml.Unmarshal(text, &tree)
	default:
		err = readJSON(bytes.NewReader(text), &tree)
	}
	return tree, err
}

func formatOf(path string) (isYAML bool, err error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return false, nil
	case ".yaml", ".yml":
		return true, nil
	}
	return false, errExtension
}

func readJSON(r io.Reader, value any) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(value); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errMore
	}
	return nil
}

func save(path string, t *ruleTable) error {
	isYAML, err := formatOf(path)
	var text bytes.Buffer
	if err == nil {
		e := json.NewEncoder(&text)
		e.SetIndent("", "  ")
		err = e.Encode(map[string]any{
			plansSection: t.given.plans, rulesSection: t.given.rules, excludeSection: t.given.exclude,
		})
	}
	if err == nil && isYAML {
		err = asYAML(&text)
	}
	if err == nil {
		err = atomicfile.Replace(path, 0o600, func(w io.Writer) error {
			_, err := text.WriteTo(w)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	return nil
}

// asYAML rewrites JSON, which is YAML too, in YAML's usual style.
func asYAML(text *bytes.Buffer) error {
	var tree yaml.Node
	if err := yaml.Unmarshal(text.Bytes(), &tree); err != nil {
		return err
	}
	var plain func(n *yaml.Node)
	plain = func(n *yaml.Node) {
		n.Style = 0
		for _, below := range n.Content {
			plain(below)
		}
	}
	plain(&tree)
	text.Reset()
	e := yaml.NewEncoder(text)
	e.SetIndent(2)
	return errors.Join(e.Encode(&tree), e.Close())
}
