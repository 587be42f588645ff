package assembly

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
)

// loadSettings is the settings that a program left in the state of a directory.
func loadSettings(dir, text, program string) (Settings, error) {
	if text == "" {
		return Settings{}, errors.New("the crawl was given up before it began: begin it again as it was")
	}
	loaded, err := config.Load(config.Sources{File: "settings.yaml", Reader: strings.NewReader(text), SavedIn: dir})
	if err != nil {
		return Settings{}, fmt.Errorf("its settings, which %s wrote: %w: go on with that program", program, err)
	}
	settings := mapPaths(loaded.Config, func(path string) string { return resolveIn(dir, path) })
	settings.State.Dir = dir
	return settings, nil
}

// mapPaths is settings with other names for the files in them.
func mapPaths(s Settings, name func(string) string) Settings {
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
