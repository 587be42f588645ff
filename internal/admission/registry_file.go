package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// plansSection is what the file calls the plans.
const plansSection = "plans"

// maxFile bounds what is read as a registry: ten thousand plans take two megabytes.
const maxFile = 16 << 20

// LoadFile puts the plans of a file in the place of all others, or, if it returns an
// error, none. The file is JSON if its name ends in ".json", and YAML if in ".yaml" or
// ".yml":
//
//	plans:
//	  - {name: login, kind: fixed-window, capacity: 5, window: 1m}
//	  - {name: api, capacity: 100, tokens_per_second: 1.5}
//
// sections are what other parts keep in the same file; see [Registry.Section]. Anything
// else there is an error. Errors begin with path and tell where in it, as
// `plans[2].capacity`; those about a plan's fields are [*PlanError], and that of a file
// that there is not is fs.ErrNotExist.
func (r *Registry) LoadFile(path string, sections ...string) error {
	tree, err := readTree(path)
	if err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	set, rest, err := plansOf(tree, sections)
	if err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set.Store(set)
	r.sections = rest
	return nil
}

// Section reads what the file has under that name into value, as encoding/json would
// from the same in JSON, and without fields that value does not know. It is not ok if
// there is no such section.
func (r *Registry) Section(name string, value any) (ok bool, err error) {
	r.mu.Lock()
	tree, ok := r.sections[name]
	r.mu.Unlock()
	if !ok {
		return false, nil
	}
	text, err := json.Marshal(tree)
	if err != nil { // a key that is no text, which YAML has
		return true, fmt.Errorf("%s: %w", name, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(value); err != nil {
		return true, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// SetSection sets what Save writes under that name, as encoding/json sees value. The
// name of the plans is not free.
func (r *Registry) SetSection(name string, value any) error {
	if name == plansSection || name == "" {
		return fmt.Errorf("section %q: use another name", name)
	}
	tree, err := treeOf(value)
	if err != nil {
		return fmt.Errorf("section %s: %w", name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sections = maps.Clone(r.sections)
	if r.sections == nil {
		r.sections = map[string]any{}
	}
	r.sections[name] = tree
	return nil
}

// treeOf is value as encoding/json sees it.
func treeOf(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return jsonTree(bytes.NewReader(text))
}

// Save writes plans and sections into a file, by whose name it is JSON or YAML. Whoever
// reads it sees the old file or the new one, also after a crash; if Save fails the old
// one stays. Comments and the order of sections are not kept.
func (r *Registry) Save(path string) error {
	r.mu.Lock()
	sections, plans := maps.Clone(r.sections), r.current().plans
	r.mu.Unlock()
	return save(path, plans, sections)
}

// save writes a file of these plans and sections. It may change the map.
func save(path string, plans []Plan, tree map[string]any) error {
	write, err := writerFor(path)
	if err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	if tree == nil {
		tree = map[string]any{}
	}
	tree[plansSection] = append([]Plan{}, plans...) // an empty list rather than null
	var text bytes.Buffer
	if err := write(&text, tree); err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	err = atomicfile.Replace(path, 0o600, func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
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
	if err := e.Encode(plain(tree)); err != nil {
		return err
	}
	return e.Close()
}

// plain is tree with the numbers of JSON as numbers, which YAML would quote as text.
func plain(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k := range v {
			m[k] = plain(v[k])
		}
		return m
	case []any:
		list := slices.Clone(v)
		for i := range list {
			list[i] = plain(list[i])
		}
		return list
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return tree
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
