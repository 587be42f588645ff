package assembly

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/record"
)

// StateConfig says which state to open. Package crawl documents the fields.
type StateConfig struct {
	Dir       string
	Overwrite bool
	Version   string
	Log       *slog.Logger
}

// State is a directory in which a crawl is kept as it goes: the URLs and their visits, how far sinks are written, the
// rates of hosts, and the settings, including the values of headers as they were given. Only the owner can read its
// files. A [Crawler] with a state closes it at the end of its run. Except for Close, its methods are safe for
// concurrent use.
type State struct {
	dir     string
	program string // name and version of this program
	store   *disk.Store
	// Of a crawl that is resumed:
	resumed  bool
	settings Settings
	seeds    []string  // seeds of Run, if they may not all be in the store
	all      bool      // all seeds are in the store, including those from elsewhere
	pages    int64     // pages visited in this round
	given    int64     // those of them that hosts served
	newRound bool      // opened for a new round
	pending  bool      // the new round has still to begin
	since    time.Time // URLs answered since then need no visit in the new round; zero means that all are visited

	sinks  durableList // set before the first batch
	begun  bool        // the state contains something
	closed bool
}

// Keys of the values that the store keeps for this package.
const (
	metaSettings  = "settings"         // YAML
	metaSeeds     = "seeds"            // seeds of Run, one per line
	metaAllSeeds  = "seeds_done"       // "yes" once all seeds are in the store
	metaProgram   = "settings_program" // program that wrote the settings
	metaChanges   = "steering"         // changes by the operator, as JSON
	metaAddresses = "opening "         // then host and port of a seed of the user: the private addresses that it allows
	metaEnd       = "ended"            // why the last run ended in order with URLs left; empty means that it did not
	yes           = "yes"
)

// NewState makes a state in a directory, and the directory if it does not exist. The error is [fs.ErrExist] if there is
// a state already, and names another process that uses it.
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

// removeUnused handles a state that is in the way of a new one. It removes the state of a process that was killed just
// after it made the state, and one that never had a URL, for example because the file of seeds was empty. Otherwise it
// reports whether the crawl is done.
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

// OpenState opens the state of a crawl that has ended, whatever ended it. If the crawl was done, nothing is left to do;
// see [State.Done].
func OpenState(cfg StateConfig) (*State, error) {
	s := &State{dir: cfg.Dir, resumed: true, begun: true}
	if err := isDir(cfg.Dir); err != nil {
		return nil, err
	}
	if err := s.open(&cfg, disk.Resume); err != nil {
		return nil, err
	}
	if err := s.recall(); err != nil {
		return nil, errors.Join(stateError(cfg.Dir, err), s.store.Close())
	}
	return s, nil
}

// Again configures a new round. Package crawl documents the fields.
type Again struct {
	MaxAge     time.Duration
	Unfinished bool
}

// ErrUnfinished means that a new round was requested for a crawl whose last run was interrupted or failed, and has URLs
// left.
var ErrUnfinished = errors.New("the last round of the crawl is not done")

// OpenAgain opens the state of a crawl for another round: every known URL is requested again, and so are those found on
// the way. The error is [ErrUnfinished] if the last run did not end in order and again.Unfinished is not set; otherwise
// it is as with OpenState.
func OpenAgain(cfg StateConfig, again Again) (*State, error) {
	s, err := OpenState(cfg)
	if err != nil {
		return nil, err
	}
	// URLs left after an end in order are beyond a limit, or of hosts that refused requests.
	if !again.Unfinished && !s.Done() && s.store.Meta(metaEnd) == "" {
		return nil, errors.Join(stateError(cfg.Dir, ErrUnfinished), s.Close())
	}
	s.pages, s.given, s.newRound, s.pending = 0, 0, true, true
	if again.MaxAge > 0 {
		s.since = clock.System().Now().Add(-again.MaxAge)
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

// recall reads what earlier runs have left for this one.
func (s *State) recall() (err error) {
	if s.settings, err = loadSettings(s.dir, s.store.Meta(metaSettings), s.store.Meta(metaProgram)); err != nil {
		return err
	}
	s.all = s.store.Meta(metaAllSeeds) == yes
	if lines := s.store.Meta(metaSeeds); lines != "" && !s.all {
		s.seeds = strings.Split(lines, "\n")
	}
	s.pages, s.given, err = s.store.CountVisits()
	return err
}

// loadSettings returns the settings that a program left in the state of a directory.
func loadSettings(dir, text, program string) (Settings, error) {
	if text == "" {
		return Settings{}, errNotBegun
	}
	settings, err := config.LoadSaved(dir, text)
	if err != nil {
		err = fmt.Errorf("its settings, which %s wrote: %w: go on with that program", program, err)
	}
	return settings, err
}

// Dir returns the directory of the state.
func (s *State) Dir() string { return s.dir }

// Config returns the configuration with which the crawl was begun, with the state itself in Kept.
func (s *State) Config() Config {
	cfg := DefaultConfig()
	if s.resumed {
		cfg.Settings = s.settings
	}
	cfg.Kept = s
	return cfg
}

// Left returns how many URLs are still to be visited, and how many pages earlier runs of this round have visited.
func (s *State) Left() (queued, pages int64) { return s.store.Left().Queued, s.pages }

// Obtained reports whether a host has served a page in earlier runs of this round.
func (s *State) Obtained() bool { return s.given > 0 }

// Seeded reports whether all seeds of earlier runs are in the state.
func (s *State) Seeded() bool { return s.all }

// Done reports whether earlier runs have left nothing to do.
func (s *State) Done() bool { return s.resumed && !s.pending && s.all && s.store.Left().Queued == 0 }

// Round returns the number of the round that the crawl is in or will begin, from 1.
func (s *State) Round() int {
	if s.pending {
		return s.store.Round() + 1
	}
	return s.store.Round()
}

// Position returns how far the sink with that path was written when the state was last updated. If the state does not
// know the sink, only Path is set.
func (s *State) Position(path string) record.Position {
	for _, p := range s.store.Positions() {
		if p.Path == path {
			return record.Position(p)
		}
	}
	return record.Position{Path: path}
}

// Close closes a state with which no Crawler was run. It removes a state in which nothing was ever kept.
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

// join makes the pipeline use the state. A new round begins in the same transaction in which the settings are stored:
// whoever resumes it after a kill must write to the same destinations.
func (s *State) join(pc *pipeline.Config, settings Settings) error {
	if s.pending {
		text, err := settings.SaveIn(s.dir)
		if err != nil {
			return err
		}
		// This is one transaction on a local disk; there is no point in canceling it.
		err = s.store.Again(context.Background(), disk.Again{
			Since: s.since, Meta: map[string]string{metaSettings: text, metaProgram: s.program},
		})
		if err != nil {
			return stateError(s.dir, err)
		}
		s.pending = false
	}
	pc.State = &pipeline.State{Store: s.store, Left: s.store.Left()}
	pc.Key, pc.Pages, s.sinks = s.store.Key(), int(s.pages), durableSinks(pc.Sinks, pc.Archives)
	pc.Round, pc.Unconditional = s.store.Round(), !settings.Fetch.Conditional
	return nil
}

// begin stores what the run is about, before anything happens: its settings, and its seeds unless there are no new
// ones.
func (s *State) begin(ctx context.Context, settings Settings, seeds []string, more, embedded bool) error {
	if err := s.keep(settings); err != nil {
		return err
	}
	s.begun = true
	s.store.SetMeta(metaEnd, "")
	if embedded {
		s.store.SetMeta(disk.MetaEmbedded, yes)
	}
	if !s.all || more || len(seeds) > 0 {
		s.store.SetMeta(metaSeeds, strings.Join(seeds, "\n"))
		s.store.SetMeta(metaAllSeeds, "")
	}
	s.store.Commit(nil)
	return stateError(s.dir, s.store.Flush(ctx))
}

func (s *State) keep(settings Settings) error {
	text, err := settings.SaveIn(s.dir)
	if err == nil {
		s.store.SetMeta(metaSettings, text)
		s.store.SetMeta(metaProgram, s.program)
	}
	return err
}

// end closes the state at the end of a run, and returns the error to end with: an earlier failure of the store, else
// err, else that of closing.
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

// durableList is the sinks of a crawl whose records must be on disk before their URLs count as done.
type durableList []durable

type durable struct {
	record.Durable
	path string
}

// durableSinks returns the durable sinks, without standard output, which may not be on a disk.
func durableSinks(sinks ...[]record.Sink) (all durableList) {
	for _, list := range sinks {
		for _, s := range list {
			if d, ok := s.(record.Durable); ok {
				if path := d.Mark().Path; path != sink.Stdout {
					all = append(all, durable{d, path})
				}
			}
		}
	}
	return all
}

// syncer returns sync, or nil if there is nothing to sync.
func (l durableList) syncer() func() error {
	if len(l) == 0 {
		return nil
	}
	return l.sync
}

// sync syncs all sinks. It may be called while others write to them.
func (l durableList) sync() error {
	for _, d := range l {
		if err := d.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", d.path, err)
		}
	}
	return nil
}

// resume restores what earlier runs of the crawl had, if there were any, and stores what this one is about. It may
// return early when ctx ends; then nothing may be leased. It returns the seeds to begin with: first those of a run that
// ended before all its seeds were in the state, then those given.
func (c *Crawler) resume(ctx context.Context, given []request.Seed, more bool) ([]request.Seed, error) {
	before, err := c.state.earlier()
	if err != nil {
		return nil, stateError(c.state.dir, err)
	}
	if err := c.named.restore(ctx, c.state); err != nil {
		return nil, err
	}
	for it, err := range c.state.store.Seeds() {
		if err != nil {
			return nil, stateError(c.state.dir, err)
		}
		if ctx.Err() != nil {
			break
		}
		readmit(c, it.URL, it.Hops == 0, false)
	}
	if err := c.recount(ctx); err != nil {
		return nil, err
	}
	for _, s := range before {
		readmit(c, s.URL, true, s.Outside())
	}
	c.admitSeeds(ctx, given) // before begin stores what they allow
	all := append(before, given...)
	lines := make([]string, len(all))
	for i, s := range all {
		lines[i] = s.String()
	}
	return all, c.state.begin(ctx, c.cfg.Settings, lines, more, c.cfg.Embedded)
}

// earlier returns the seeds of a run that ended before all of them were in the store.
func (s *State) earlier() ([]request.Seed, error) {
	seeds := make([]request.Seed, len(s.seeds))
	for i, line := range s.seeds {
		var err error
		if seeds[i], err = request.ParseSeed(line); err != nil {
			return nil, err
		}
	}
	return seeds, nil
}

// recountTold is how many URLs take long enough to count that it is logged: two to three seconds with one pattern.
const recountTold = 1_000_000

// recount counts what earlier runs have used of the budgets of patterns. The state has no counters for them, as the
// patterns may be others now.
func (c *Crawler) recount(ctx context.Context) error {
	if !c.state.resumed || len(c.cfg.Scope.Budgets) == 0 {
		return nil
	}
	store := c.state.store
	if n := store.Left().Known; n >= recountTold {
		c.log.Info("counting the URLs of earlier runs for scope.budgets", slog.Int64("urls", n))
	}
	err := c.budgets.Recount(func(yield func(string, error) bool) {
		for u, err := range store.URLs() {
			if ctx.Err() != nil || !yield(u, err) {
				return
			}
		}
	})
	return stateError(c.state.dir, err)
}

// noteSeeded stores in the state when all seeds are in it. It does not if the seeds were cut short by a limit, by Stop
// or by the end of ctx.
func (c *Crawler) noteSeeded(ctx context.Context, seeds iter.Seq[request.Seed]) iter.Seq[request.Seed] {
	return func(yield func(request.Seed) bool) {
		for s := range seeds {
			if !yield(s) {
				return
			}
		}
		// Discovery has received the last seed. When it handles Revise, it has stored that seed.
		c.pipe.Revise()
		select {
		case <-c.pipe.Halted():
			return
		default:
		}
		if c.stopped.Err() == nil && ctx.Err() == nil {
			// The value becomes durable with the next batch. Ending a batch here would split one of the frontier's.
			c.state.store.SetMeta(metaAllSeeds, yes)
		}
	}
}

// noteEnd ends the last batch of a run: the tries and seeds since the previous batch, what Reload has changed, and why
// the crawl ended. While a batch is open, learned rates cannot be saved.
func (c *Crawler) noteEnd() error {
	if c.state == nil {
		return nil
	}
	err := c.state.keep(c.changes.settings())
	switch end, _ := c.pipe.End(); end {
	case pipeline.EndLimit, pipeline.EndBlocked, pipeline.EndUnruled:
		c.state.store.SetMeta(metaEnd, end.String())
	}
	c.state.store.Commit(nil)
	return err
}

// Checkpoint waits until all that was written so far is on disk, with the state of the crawl as of then. Without a
// state it does nothing.
func (c *Crawler) Checkpoint(ctx context.Context) error {
	if c.state == nil {
		return nil
	}
	return stateError(c.state.dir, c.state.store.Flush(ctx))
}

// Figures returns the current figures.
func (s *State) Figures() frontier.Kept {
	counts := s.store.Counts()
	k := frontier.Kept{Queued: counts.Queued, Done: counts.Done, Failed: s.store.Err() != nil}
	k.Pending, k.Limit = s.store.Pending()
	k.IndexMemory, k.IndexDisk = s.store.SeenBytes()
	return k
}
