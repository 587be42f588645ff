package config

import (
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/records/sink"
)

// A resumed crawl continues with the settings it was begun with; what the user sets now is stronger.

// Save writes the configuration as a file that [Load] reads back to the same values, including credentials: only the
// owner should be able to read the destination. Overwrite is left out, because it must not be repeated by accident. The
// error is that of w.
func (c Config) Save(w io.Writer) error {
	c.Output.Overwrite = false
	return writeYAML(w, c.document(true), nil)
}

func (l loader) loadSaved(src Sources) {
	l.cfg = *src.Saved
	o := Origin{Source: fromState, Name: src.SavedIn}
	for _, f := range fields() {
		if f.own {
			l.set(f.path, f.bound(f.def))
			continue
		}
		if l.origins[f.path] = o; f.kind == kindList {
			for i := range l.get(f.path).([]string) {
				l.origins[document.Item(f.path, i)] = o
			}
		}
	}
	l.replaceHosts(slices.Clone(src.Saved.Hosts))
	l.origins[hostsPath], l.origins[resiliencePath] = o, o
	for i := range l.cfg.Hosts {
		for _, f := range hostFields() {
			l.origins[document.Item(hostsPath, i)+"."+f.path] = o
		}
	}
	l.relax()
}

func (l loader) fromState(dir string) {
	for path, o := range l.origins {
		if o.Source == fromFile {
			l.origins[path] = Origin{Source: fromState, Name: dir}
		}
	}
}

func (l loader) replaceHosts(rules []Host) {
	l.cfg.Hosts = rules
	maps.DeleteFunc(l.origins, func(path string, _ Origin) bool { return strings.HasPrefix(path, hostsPath+"[") })
}

// relax finds saved values that need not have been written, because they follow from the others, and makes them
// adjustable again.
func (l loader) relax() {
	for _, path := range slices.Concat(ordered...) {
		was, before := l.get(path), maps.Clone(l.origins)
		l.set(path, row(path).bound(row(path).def))
		l.origins[path] = Origin{Source: fromDefault}
		trial := newTree(l.cfg)
		trial.origins = maps.Clone(l.origins)
		for _, chain := range ordered {
			loader{trial}.settleOrder(chain)
		}
		if trial.get(path) != was {
			l.set(path, was)
			l.origins = before
		}
	}
	for i := range l.cfg.Hosts {
		for _, key := range hostKeys { // values that a rule has inherited from ratelimit are inherited again
			if path := document.Item(hostsPath, i) + "." + key; l.get(path) == l.get(inherit(key)) {
				delete(l.origins, path)
			}
		}
	}
}

func (c checker) saved(saved *Config) {
	for _, f := range fields() {
		if f.kept != "" && c.origins[f.path].Source != fromState && c.get(f.path) != get(saved, f.path) {
			c.wrong(f.path, "cannot change when a crawl is resumed, it is %s: %s; leave %s out", f.plain(get(saved, f.path)), f.kept, handle(f.path))
		}
	}
}

// SaveIn returns what [Config.Save] writes, with file names as the state in a directory keeps them.
func (c Config) SaveIn(dir string) (string, error) {
	var b strings.Builder
	err := mapPaths(c, func(path string) string { return RelativeTo(dir, path) }).Save(&b)
	return b.String(), err
}

// LoadSaved reads what [Config.SaveIn] returned for the state in a directory.
func LoadSaved(dir, text string) (Config, error) {
	loaded, err := Load(Sources{File: "settings.yaml", Reader: strings.NewReader(text), SavedIn: dir})
	if err != nil {
		return Config{}, err
	}
	c := mapPaths(loaded.Config, func(path string) string { return resolveIn(dir, path) })
	c.State.Dir = dir
	return c, nil
}

func mapPaths(s Config, name func(string) string) Config {
	rename := func(root any, rows []field) {
		for i := range rows {
			if !rows[i].namesFile() {
				continue
			}
			v := at(root, rows[i].path)
			if rows[i].kind == kindList {
				files := slices.Clone(v.Interface().([]string)) // others may share the loaded slice
				for i := range files {
					files[i] = renamed(files[i], name)
				}
				v.Set(reflect.ValueOf(files))
				continue
			}
			v.SetString(renamed(v.String(), name))
		}
	}
	rename(&s, fields())
	s.Access.Auth = renamedLogin(s.Access.Auth, name)
	s.Hosts = slices.Clone(s.Hosts)
	for i := range s.Hosts {
		rename(&s.Hosts[i], hostFields())
	}
	s.State.Dir = ""
	return s
}

// renamedLogin renames the file of a login in a list of credentials.
func renamedLogin(items []string, name func(string) string) []string {
	items = slices.Clone(items)
	for i, item := range items {
		if file, ok := strings.CutPrefix(item, LoginWord); ok {
			items[i] = LoginWord + renamed(strings.TrimSpace(file), name)
		}
	}
	return items
}

func renamed(path string, name func(string) string) string {
	if path == "" || path == sink.Stdout {
		return path
	}
	return name(path)
}

// RelativeTo returns a path as a state in a directory has it: relative to the directory if it is inside, so that the
// directory may be moved, and absolute otherwise, so that a crawl can be resumed from anywhere.
func RelativeTo(dir, path string) string {
	absolute, err := filepath.Abs(path)
	home, errHome := filepath.Abs(dir)
	if err != nil || errHome != nil {
		return path // without a working directory there is nothing better
	}
	if rel, err := filepath.Rel(home, absolute); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return absolute
}

func resolveIn(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
