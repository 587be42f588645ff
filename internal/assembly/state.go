package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/records/sink"
)

// StateConfig says which state: that of the package crawl, which says what each field means.
type StateConfig struct {
	Dir       string
	Overwrite bool
	Version   string
	Log       *slog.Logger
}

// State is a directory in which a crawl is kept as it goes: the URLs and what became of them, how
// far sinks are, the rates of hosts, and the settings with the values of headers as they were given,
// in files for their owner alone. A [Crawler] with a state closes it at the end of its run. Its
// methods are safe for concurrent use, but for Close.
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
	given    int64    // of them, those that hosts gave
	next     *round   // that is to begin; nil: none
	newRound bool     // it was opened for a new round

	sinks  durableList // set before the first batch
	begun  bool        // there is something in it
	closed bool
}

// Keys of what the store keeps for us.
const (
	metaSettings  = "settings"         // YAML
	metaSeeds     = "seeds"            // of Run, a line each
	metaAllSeeds  = "seeds_done"       // they are in the store
	metaProgram   = "settings_program" // which wrote them
	metaChanges   = "steering"         // by the operator: JSON
	metaAddresses = "opening "         // and a host and a port of the user's seeds: the private addresses that they allow
	metaEnd       = "ended"            // why the last run ended in order with URLs left; empty: it did not
	yes           = "yes"
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
		switch removed, done := removeUnused(&cfg); {
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

// removeUnused reports on a state that stands in the way of a new one: whether its crawl is done.
// One that a process had just made when it was killed is removed, and one that never had a
// URL, as when its file of seeds was empty: there is nothing in it to go on with.
func removeUnused(cfg *StateConfig) (removed, done bool) {
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

// OpenState opens the state of a crawl that has ended before all was visited, however it ended.
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
		Mode: mode, Program: s.program, Sync: func() error { return s.sinks.sync() }, Log: cfg.Log,
	})
	return stateError(cfg.Dir, err)
}

// recall reads what the first run has left for this one.
func (s *State) recall() error {
	var err error
	if s.settings, err = loadSettings(s.dir, s.store.Meta(metaSettings), s.store.Meta(metaProgram)); err != nil {
		return err
	}
	if lines := s.store.Meta(metaSeeds); lines != "" {
		s.seeds = strings.Split(lines, "\n")
	}
	if s.all = s.store.Meta(metaAllSeeds) == yes; s.all {
		s.seeds = nil
	}
	s.pages, s.given, err = s.store.CountVisits()
	return err
}

// loadSettings is the settings that a program left in the state of a directory.
func loadSettings(dir, text, program string) (Settings, error) {
	if text == "" {
		return Settings{}, errors.New("the crawl was given up before it began: begin it again as it was")
	}
	settings, err := config.LoadSaved(dir, text)
	if err != nil {
		err = fmt.Errorf("its settings, which %s wrote: %w: go on with that program", program, err)
	}
	return settings, err
}

// Dir is the directory.
func (s *State) Dir() string { return s.dir }

// Config is what the crawl was begun with, and the state itself.
func (s *State) Config() Config {
	cfg := DefaultConfig()
	if s.resumed {
		cfg.Settings = s.settings
	}
	cfg.Kept = s
	return cfg
}

// Left is how many URLs are still to be visited, and how many pages earlier runs of this round have
// visited.
func (s *State) Left() (queued, pages int64) { return s.store.Left().Queued, s.pages }

// Obtained reports whether earlier runs of this round had a page from a host.
func (s *State) Obtained() bool { return s.given > 0 }

// Seeded reports whether all seeds of earlier runs are in the state.
func (s *State) Seeded() bool { return s.all }

// Done reports whether earlier runs have left nothing to do.
func (s *State) Done() bool {
	return s.resumed && s.next == nil && s.all && s.store.Left().Queued == 0
}

// settled reports whether earlier runs have done what they were to do: what is left is beyond
// a limit, or of hosts that refused to be asked.
func (s *State) settled() bool { return s.Done() || s.resumed && s.store.Meta(metaEnd) != "" }

// noteEnd notes why a run came to its end, in the batch that ends next.
func (s *State) noteEnd(end pipeline.End) {
	switch end {
	case pipeline.EndLimit, pipeline.EndBlocked, pipeline.EndUnruled:
		s.store.SetMeta(metaEnd, end.String())
	}
}

// Position is how far the sink of that path was when the state last heard of it; zero if it never did.
func (s *State) Position(path string) sink.Position {
	for _, p := range s.store.Positions() {
		if p.Path == path {
			return sink.Position{Path: p.Path, Format: sink.Format(p.Format), Bytes: p.Bytes, Records: p.Records}
		}
	}
	return sink.Position{Path: path}
}

// Close gives up a state of which no Crawler was run. One in which nothing was ever kept is removed.
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

// join has the pipeline kept in the state, in a new round if one was asked for.
func (s *State) join(pc *pipeline.Config, settings Settings) error {
	if err := s.beginRound(settings); err != nil {
		return err
	}
	pc.State = &pipeline.State{Storage: s.store, Progress: s.store, Left: s.store.Left(), Guesses: s.store}
	pc.Key, pc.Pages, s.sinks = s.store.Key(), int(s.pages), durableSinks(pc.Sinks, pc.Archives)
	pc.Round, pc.Unconditional = s.store.Round(), !settings.Fetch.Conditional
	return nil
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
	text, err := settings.SaveIn(s.dir)
	if err != nil {
		return err
	}
	s.store.SetMeta(metaSettings, text)
	s.store.SetMeta(metaProgram, s.program)
	return nil
}

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

// durableList is the sinks of a crawl whose records are to be on their disks before anything
// says that the URLs are done.
type durableList []durable

type durable struct {
	sink.Durable
	path string
}

// durableSinks leaves standard output out, which is on no disk as far as we know.
func durableSinks(sinks ...[]sink.Sink) (all durableList) {
	for _, list := range sinks {
		for _, s := range list {
			d, ok := s.(sink.Durable)
			if !ok {
				continue
			}
			if path := d.Mark().Path; path != sink.Stdout {
				all = append(all, durable{d, path})
			}
		}
	}
	return all
}

// sync puts all of them on their disks. It may be called beside whoever writes.
func (d durableList) sync() error {
	for i := range d {
		if err := d[i].Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", d[i].path, err)
		}
	}
	return nil
}
