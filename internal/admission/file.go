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

// maxFile bounds what is read of a file: ten thousand plans take two megabytes.
const maxFile = 16 << 20

// errNoRules is for what should have rules. That there are none lets everybody in, so it
// has to be said: a file that was cut short does not mean it.
var errNoRules = errors.New("rules is missing: give a list, an empty one if there are to be no rules")

// LoadFile puts the plans, rules and exclusions of a file in the place of all others, or,
// if it returns an error, nothing. The file is JSON if its name ends in ".json", and YAML if
// in ".yaml" or ".yml":
//
//	plans:
//	  - {name: login, kind: sliding-window, capacity: 5, window: 1m}
//	rules:
//	  - {name: login, path: /api/auth/login, key: ip, plans: [login]}
//	exclude:
//	  - /api/health
//
// Errors begin with path and tell where in it, as `plans[2].capacity`; those about a plan's
// fields are [*PlanError], and that of a file that there is not is fs.ErrNotExist. Each request
// is judged by the file before or by this one, and by nothing in between.
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
	if !ok && tree != nil { // nil is an empty file
		return d, errors.New(`it is no mapping: begin it with "plans:"`)
	}
	for name := range file {
		if name != plansSection && name != rulesSection && name != excludeSection {
			return d, fmt.Errorf("%s is not known: use plans, rules, exclude", name)
		}
	}
	if d.plans, err = plansOf(file[plansSection]); err != nil {
		return d, err
	}
	err = errors.Join(readSection(file, rulesSection, &d.rules), readSection(file, excludeSection, &d.exclude))
	if err == nil && d.rules == nil {
		err = errNoRules
	}
	return d, err
}

// readSection reads a section into value, as encoding/json would from the same in JSON.
func readSection(file map[string]any, name string, value any) error {
	text, err := json.Marshal(file[name])
	if err == nil { // else there is a key that is no text, which YAML has
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Save writes plans, rules and exclusions into a file, by whose name it is JSON or YAML. Whoever
// reads it sees the old file or the new one, also after a crash; if Save fails the old one
// stays. Comments and the order of sections are not kept.
func (s *RuleSet) Save(path string) error { return save(path, s.inForce()) }

// save writes what is in force, or about to be.
func save(path string, l limits) error {
	var text bytes.Buffer
	write, err := writerFor(path)
	if err == nil {
		err = write(&text, map[string]any{
			plansSection: append([]Plan{}, l.plans.plans...), // an empty list rather than null
			rulesSection: append([]Rule{}, l.table.specs()...), excludeSection: append([]string{}, l.table.excludeSpecs()...),
		})
	}
	if err == nil {
		err = atomicfile.Replace(path, 0o600, func(w io.Writer) error {
			_, err := w.Write(text.Bytes())
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	return nil
}

func writerFor(path string) (func(io.Writer, any) error, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return func(w io.Writer, tree any) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(tree)
		}, nil
	case ".yaml", ".yml":
		return writeYAML, nil
	}
	return nil, errExtension
}

var errExtension = errors.New("the format is not known: end the file's name in .json, .yaml or .yml")

func writeYAML(w io.Writer, tree any) error {
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(tree); err != nil {
		return err
	}
	return e.Close()
}

// readTree reads the file's values, of whatever form.
func readTree(path string) (any, error) {
	if _, err := writerFor(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err) // the cause: LoadFile tells the path
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("it is larger than %d bytes: split it", maxFile)
	case strings.EqualFold(filepath.Ext(path), ".json"):
		return jsonTree(bytes.NewReader(text))
	}
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return tree, nil
}

func jsonTree(r io.Reader) (any, error) {
	d := json.NewDecoder(r)
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the first value: remove it")
	}
	return tree, nil
}
