package assembly

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// Durable is a Sink that tells how far it is, so that what was written behind the last
// batch that a [State] has can be cut off after a crash. Records of other sinks may come
// twice then.
type Durable = sink.Durable

// Position is how far a sink is.
type Position = sink.Position

// StateConfig says which state. Dir is required.
type StateConfig struct {
	// Dir is a directory of its own, on a disk of this machine.
	Dir string
	// Overwrite has [NewState] remove the state of another crawl, and nothing else, from
	// Dir first. False leaves it and is an error.
	Overwrite bool
	// Version names the program in the state, for people. Empty: not told.
	Version string
	// Log is told of what takes long or had to be repaired. Nil means nobody is.
	Log *slog.Logger
}

// State is a directory in which a crawl is kept as it goes: the URLs and what became of
// them, how far sinks are, the rates of hosts, and the settings with the values of headers
// as they were given, in files for their owner alone. [NewState] makes one and [OpenState]
// opens that of a crawl to be resumed; [Config.Kept] gives it to a [Crawler], which closes
// it at the end of its run. Until then the directory is this process's.
//
// It survives whatever ends the process. What the last tenth of a second brought may be
// fetched again, and is recorded once: see [State.Position].
//
// Its methods are safe for concurrent use, but for Close.
type State struct {
	dir     string
	program string // this one
	store   *disk.Store
	// Of a crawl that is resumed:
	resumed  bool
	settings Settings
	seeds    []string // of Run, if they may not all be in the store
	all      bool     // they are, and so are those that came from elsewhere
	pages    int64    // of this round
	next     *round   // that is to begin; nil: none
	anew     bool     // it was opened for a new round

	sinks  durables // set before the first batch
	begun  bool     // there is something in it
	closed bool
}

// Keys of what the store keeps for us.
const (
	metaSettings = "settings"         // YAML
	metaSeeds    = "seeds"            // of Run, a line each
	metaAllSeeds = "seeds_done"       // they are in the store
	metaProgram  = "settings_program" // which wrote them
	metaSteering = "steering"         // JSON
	metaOpening  = "opening "         // and a host and a port of the user's seeds: the private addresses that they opened
	metaEnd      = "ended"            // why the last run ended in order with URLs left; empty: it did not
	yes          = "yes"
)

// NewState makes a state in a directory, which it makes if need be. The error is
// [fs.ErrExist] if there is one already; another process that has it is named.
func NewState(cfg StateConfig) (*State, error) {
	if cfg.Overwrite {
		if err := disk.Remove(cfg.Dir); err != nil {
			return nil, stateError(cfg.Dir, err)
		}
	}
	s := &State{dir: cfg.Dir}
	err := s.open(&cfg, disk.Create)
	if errors.Is(err, disk.ErrExists) {
		switch removed, done := look(&cfg); {
		case removed:
			err = s.open(&cfg, disk.Create)
		case done:
			err = stateError(cfg.Dir, errDone)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// errFile is that there is no directory, but a file.
var errFile = fmt.Errorf("%w: it is a file", disk.ErrMissing)

// errDone is that there is a crawl that resume has nothing to do for.
var errDone = fmt.Errorf("%w, and is done", disk.ErrExists)

// look reports on a state that stands in the way of a new one: whether its crawl is done.
// One that a process had just made when it was killed is removed, and one that never had a
// URL, as when its file of seeds was empty: there is nothing in it to go on with.
func look(cfg *StateConfig) (removed, done bool) {
	s := &State{dir: cfg.Dir, resumed: true}
	if s.open(cfg, disk.Resume) != nil {
		return false, false
	}
	s.begun = s.store.Meta(metaSettings) != ""
	s.all = s.store.Meta(metaAllSeeds) == yes
	done = s.begun && s.Done()
	if done && s.store.Counts().Known == 0 {
		s.begun, done = false, false
	}
	return s.Close() == nil && !s.begun, done
}

// OpenState opens the state of a crawl that has ended before all was visited, however it
// ended. [State.Config] has its settings. The error is [fs.ErrNotExist] if there is none;
// another process that has it is named.
func OpenState(cfg StateConfig) (*State, error) {
	s := &State{dir: cfg.Dir, resumed: true, begun: true}
	if info, err := os.Stat(cfg.Dir); err == nil && !info.IsDir() {
		return nil, stateError(cfg.Dir, errFile)
	}
	if err := s.open(&cfg, disk.Resume); err != nil {
		return nil, err
	}
	if err := s.recall(); err != nil {
		return nil, errors.Join(stateError(cfg.Dir, err), s.store.Close())
	}
	return s, nil
}

func (s *State) open(cfg *StateConfig, mode disk.Mode) (err error) {
	if cfg.Dir == "" {
		return errors.New("StateConfig.Dir is empty: name a directory")
	}
	s.program = strings.TrimSpace(config.Product + " " + cfg.Version)
	s.store, err = disk.Open(cfg.Dir, disk.Config{
		Mode: mode, Program: s.program, Sync: s.sync, Log: cfg.Log,
	})
	return stateError(cfg.Dir, err)
}

// recall reads what the first run has left for this one.
func (s *State) recall() error {
	var err error
	if s.settings, err = recalled(s.dir, s.store.Meta(metaSettings), s.store.Meta(metaProgram)); err != nil {
		return err
	}
	if lines := s.store.Meta(metaSeeds); lines != "" {
		s.seeds = strings.Split(lines, "\n")
	}
	if s.all = s.store.Meta(metaAllSeeds) == yes; s.all {
		s.seeds = nil
	}
	s.pages, err = s.store.CountVisits()
	return err
}

// recalled is the settings that a program left in the state of a directory.
func recalled(dir, text, program string) (Settings, error) {
	if text == "" {
		return Settings{}, errors.New("the crawl was given up before it began: begin it again as it was")
	}
	loaded, err := config.Load(config.Sources{File: "settings.yaml", Reader: strings.NewReader(text), SavedIn: dir})
	if err != nil {
		return Settings{}, fmt.Errorf("its settings, which %s wrote: %w: go on with that program", program, err)
	}
	settings := moved(loaded.Config, func(path string) string { return atHome(dir, path) })
	settings.State.Dir = dir
	return settings, nil
}

// Dir is the directory.
func (s *State) Dir() string { return s.dir }

// Config is what the crawl was begun with, for the crawl that goes on: its settings, and
// the state itself. Programs add what settings do not hold, and may change the settings.
// Of a state that is new it is [DefaultConfig].
func (s *State) Config() Config {
	cfg := DefaultConfig()
	if s.resumed {
		cfg.Settings = s.settings
	}
	cfg.Kept = s
	return cfg
}

// Left is what the state had when it was opened, or when a new round began: URLs that are
// still to be visited, and pages that earlier runs of this round have visited, which count for
// the max_pages of the settings.
func (s *State) Left() (queued, pages int64) { return s.store.Left().Queued, s.pages }

// Seeded reports whether all seeds of earlier runs are in the state. If they are not, the
// next run has those that were given to [Crawler.Run] from the state; those of a sequence
// have to be given to [Crawler.RunSeq] again, where the ones that are known do no harm.
func (s *State) Seeded() bool { return s.all }

// Done reports whether earlier runs have left nothing to do.
func (s *State) Done() bool {
	return s.resumed && s.next == nil && s.all && s.store.Left().Queued == 0
}

// settled reports whether earlier runs have done what they were to do: what is left is beyond
// a limit, or of hosts that refused to be asked.
func (s *State) settled() bool { return s.Done() || s.resumed && s.store.Meta(metaEnd) != "" }

// ended notes why a run came to its end, in the batch that ends next.
func (s *State) ended(end pipeline.End) {
	switch end {
	case pipeline.EndLimit, pipeline.EndBlocked, pipeline.EndUnruled:
		s.store.SetMeta(metaEnd, end.String())
	}
}

// Position is how far the sink of that path was when the state last heard of it; zero if
// it never did. Before a crawl goes on its sinks are to be cut back to that, or records
// would be there twice.
func (s *State) Position(path string) Position {
	for _, p := range s.store.Positions() {
		if p.Path == path {
			return p
		}
	}
	return Position{Path: path}
}

// Close gives up a state that no Crawler was built with, or that of a Crawler whose Run was
// not called. One that is new, in which nothing was ever kept, is removed.
func (s *State) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.store.Close()
	if !s.begun && err == nil {
		err = disk.Remove(s.dir)
	}
	return stateError(s.dir, err)
}

// begin notes what the run is about, before anything of it happens: its settings, and its
// seeds unless there are no new ones.
func (s *State) begin(ctx context.Context, settings Settings, seeds []string, more bool) error {
	if err := s.keep(settings); err != nil {
		return err
	}
	s.begun = true
	s.store.SetMeta(metaEnd, "")
	if !s.all || more || len(seeds) > 0 {
		s.store.SetMeta(metaSeeds, strings.Join(seeds, "\n"))
		s.store.SetMeta(metaAllSeeds, "")
	}
	s.store.Commit(nil)
	return stateError(s.dir, s.store.Flush(ctx))
}

// keep notes settings, in the batch that ends next.
func (s *State) keep(settings Settings) error {
	text, err := s.save(settings)
	if err != nil {
		return err
	}
	s.store.SetMeta(metaSettings, text)
	s.store.SetMeta(metaProgram, s.program)
	return nil
}

// save is settings as the state keeps them.
func (s *State) save(settings Settings) (string, error) {
	var b bytes.Buffer
	err := moved(settings, func(path string) string { return fromHome(s.dir, path) }).Save(&b)
	return b.String(), err
}

// seeded notes that all seeds are in the store. It becomes durable with the batch that ends
// next: to end one here would cut the frontier's in two.
func (s *State) seeded() { s.store.SetMeta(metaAllSeeds, yes) }

// sync puts the sinks on their disks.
func (s *State) sync() error { return s.sinks.sync() }

// end closes the state at the end of a run that had this error. Of two the first counts.
func (s *State) end(err error) error {
	s.closed = true
	failed := s.store.Close()
	switch first := s.store.Err(); {
	case first != nil:
		return stateError(s.dir, first)
	case err == nil:
		return stateError(s.dir, failed)
	}
	return err
}

// StateError is trouble with the state of a crawl. What was committed before is kept.
type StateError struct {
	Dir string // of the state
	Err error  // says what is wrong, and mostly what to do
}

// Error names the directory and the trouble.
func (e *StateError) Error() string {
	switch {
	case errors.Is(e.Err, errFile):
		return e.Dir + " is a file: name the directory that --state or --output was given"
	case errors.Is(e.Err, errDone):
		return fmt.Sprintf("%s holds a crawl that is done: see what has changed since by 'crawl again %s', name another directory, or crawl anew with --overwrite", e.Dir, e.word())
	case errors.Is(e.Err, ErrUnfinished):
		return fmt.Sprintf("%s holds a crawl that was interrupted: go on with it by 'crawl resume %s', or begin a round all the same with --unfinished", e.Dir, e.word())
	case errors.Is(e.Err, disk.ErrExists):
		return fmt.Sprintf("%s holds a crawl: go on with it by 'crawl resume %s', name another directory, or begin anew with --overwrite", e.Dir, e.word())
	case errors.Is(e.Err, disk.ErrMissing):
		return e.Dir + " holds no crawl: name the directory that --state or --output was given"
	}
	if other, ok := errors.AsType[*sqlitedb.InUseError](e.Err); ok {
		who := "another process"
		if other.PID > 0 {
			who = fmt.Sprintf("process %d", other.PID)
		}
		return fmt.Sprintf("%s has the crawl in %s under way: wait for its end, or end it", who, e.Dir)
	}
	return fmt.Sprintf("the state of the crawl in %s: %v", e.Dir, e.Err)
}

// word is the directory as an argument of a shell.
func (e *StateError) word() string {
	if strings.ContainsAny(e.Dir, " '\"$&;()*?!`\\|<>#~") { // it would take it for something else
		return strconv.Quote(e.Dir)
	}
	return e.Dir
}

// Unwrap is the trouble.
func (e *StateError) Unwrap() error { return e.Err }

// Is reports whether it is that there is a state, or that there is none.
func (e *StateError) Is(target error) bool {
	return target == fs.ErrExist && errors.Is(e.Err, disk.ErrExists) ||
		target == fs.ErrNotExist && errors.Is(e.Err, disk.ErrMissing)
}

func stateError(dir string, err error) error {
	if err == nil {
		return nil
	}
	return &StateError{dir, err}
}

var _ pipeline.State = (*disk.Store)(nil)

// moved is settings with other names for the files in them.
func moved(s Settings, name func(string) string) Settings {
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

// fromHome is a path as the settings in a state have it: relative to the directory for
// what is in there, so that it may be moved, and absolute for the rest, so that a crawl can
// be resumed from anywhere.
func fromHome(dir, path string) string {
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

// atHome is the way back.
func atHome(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
