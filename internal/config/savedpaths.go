package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/records/sink"
)

// SaveIn is what [Config.Save] writes, with the names of files as the state in a directory keeps
// them.
func (c Config) SaveIn(dir string) (string, error) {
	var b strings.Builder
	err := mapPaths(c, func(path string) string { return relativeTo(dir, path) }).Save(&b)
	return b.String(), err
}

// LoadSaved reads what [Config.SaveIn] wrote for the state in a directory.
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
				files := slices.Clone(v.Interface().([]string)) // others may share what was loaded
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
	s.Hosts = slices.Clone(s.Hosts)
	for i := range s.Hosts {
		rename(&s.Hosts[i], hostFields())
	}
	s.State.Dir = ""
	return s
}

func renamed(path string, name func(string) string) string {
	if path == "" || path == sink.Stdout {
		return path
	}
	return name(path)
}

// relativeTo is a path as the settings in a state have it: relative to the directory for what is in there,
// so that it may be moved, and absolute for the rest, so that a crawl can be resumed from anywhere.
func relativeTo(dir, path string) string {
	absolute, err := filepath.Abs(path)
	home, errHome := filepath.Abs(dir)
	if err != nil || errHome != nil {
		return path // there is no working directory, and nothing better
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
