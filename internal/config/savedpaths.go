package config

import (
	"path/filepath"
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

// mapPaths is a configuration with other names for the files in it, and without the directory of
// its state.
func mapPaths(s Config, name func(string) string) Config {
	paths := []*string{
		&s.Output.Path, &s.Output.Events, &s.WARC.Dir, &s.Stats.Path, &s.RateLimit.Remember,
		&s.Access.Netrc, &s.Access.CookieFile, &s.Access.Cert, &s.Access.Key, &s.Access.CAFile,
	}
	s.Hosts = slices.Clone(s.Hosts)
	s.Seeds.Files = slices.Clone(s.Seeds.Files)
	for i := range s.Seeds.Files {
		paths = append(paths, &s.Seeds.Files[i])
	}
	for i := range s.Hosts {
		paths = append(paths, &s.Hosts[i].Cert, &s.Hosts[i].Key)
	}
	for _, path := range paths {
		if *path != "" && *path != sink.Stdout {
			*path = name(*path)
		}
	}
	s.State.Dir = ""
	return s
}

// relativeTo is a path as the settings in a state have it: relative to the directory for
// what is in there, so that it may be moved, and absolute for the rest, so that a crawl can
// be resumed from anywhere.
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

// resolveIn is the way back.
func resolveIn(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
