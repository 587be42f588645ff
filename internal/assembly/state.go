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
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/record"
)

// StateConfig says which state: that of the package crawl, which says what each field means.
type StateConfig struct {
	Dir       string
	Overwrite bool
	Version   string
	Log       *slog.Logger
}

// State is a directory in which a crawl is kept as it goes: the URLs and what became of them, how far sinks are, the
// rates of hosts, and the settings with the values of headers as they were given, in files for their owner alone. A
// [Crawler] with a state closes it at the end of its run. Its methods are safe for concurrent use, but for Close.
type State struct {
	dir     string
	program string // this one
	store   *disk.Store
	// Of a crawl that is resumed:
	resumed  bool
	settings Settings
	seeds    []string  // of Run, if they may not all be in the store
	all      bool      // they are, and so are those that came from elsewhere
	pages    int64     // of this round
	given    int64     // of them, those that hosts gave
	newRound bool      // it was opened for a new round
	pending  bool      // which is to begin
	since    time.Time // of answers that are new enough for that; zero: none is

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

// NewState makes a state in a directory, which it makes if need be. The error is [fs.ErrExist] if there is one already;
// another process that has it is named.
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

// removeUnused reports on a state that stands in the way of a new one: whether its crawl is done. One that a process
// had just made when it was killed is removed, and one that never had a URL, as when its file of seeds was empty.
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

// Again says what a new round is about: that of the package crawl, which says what each field means.
type Again struct {
	MaxAge     time.Duration
	Unfinished bool
}

// ErrUnfinished means that a new round was asked for of a crawl whose last run was interrupted, or failed, and has URLs
// left.
var ErrUnfinished = errors.New("the last round of the crawl is not done")

// OpenAgain opens the state of a crawl for another round: every URL that it knows is asked for again, and what is found
// on the way is, too. The error is [ErrUnfinished] if the last run did not come to an end of its own, unless
// again.Unfinished says that this does not matter, and otherwise as with OpenState.
func OpenAgain(cfg StateConfig, again Again) (*State, error) {
	s, err := OpenState(cfg)
	if err != nil {
		return nil, err
	}
	// What is left after an end in order is beyond a limit, or of hosts that refused to be asked.
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

// recall reads what the first run has left for this one.
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

// Left is how many URLs are still to be visited, and how many pages earlier runs of this round have visited.
func (s *State) Left() (queued, pages int64) { return s.store.Left().Queued, s.pages }

// Obtained reports whether earlier runs of this round had a page from a host.
func (s *State) Obtained() bool { return s.given > 0 }

// Seeded reports whether all seeds of earlier runs are in the state.
func (s *State) Seeded() bool { return s.all }

// Done reports whether earlier runs have left nothing to do.
func (s *State) Done() bool { return s.resumed && !s.pending && s.all && s.store.Left().Queued == 0 }

// Round is the number of the round that the crawl is in, or will be in. The first is 1.
func (s *State) Round() int {
	if s.pending {
		return s.store.Round() + 1
	}
	return s.store.Round()
}

// Position is how far the sink of that path was when the state last heard of it; zero if it never did.
func (s *State) Position(path string) record.Position {
	for _, p := range s.store.Positions() {
		if p.Path == path {
			return record.Position{Path: p.Path, Format: p.Format, Bytes: p.Bytes, Records: p.Records}
		}
	}
	return record.Position{Path: path}
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

// join has the pipeline kept in the state. A new round begins together with the settings it has: whoever goes on with
// it after a kill writes where it began to.
func (s *State) join(pc *pipeline.Config, settings Settings) error {
	if s.pending {
		text, err := settings.SaveIn(s.dir)
		if err != nil {
			return err
		}
		// It is one transaction on a local disk, which nothing is gained by leaving halfway.
		err = s.store.Again(context.Background(), disk.Again{
			Since: s.since, Meta: map[string]string{metaSettings: text, metaProgram: s.program},
		})
		if err != nil {
			return stateError(s.dir, err)
		}
		s.pending = false
	}
	pc.State = &pipeline.State{Storage: s.store, Progress: s.store, Left: s.store.Left()}
	pc.Key, pc.Pages, s.sinks = s.store.Key(), int(s.pages), durableSinks(pc.Sinks, pc.Archives)
	pc.Round, pc.Unconditional = s.store.Round(), !settings.Fetch.Conditional
	return nil
}

// begin notes what the run is about, before anything of it happens: its settings, and its seeds unless there are no new
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

// durableList is the sinks of a crawl whose records are to be on their disks before anything says that the URLs are
// done.
type durableList []durable

type durable struct {
	record.Durable
	path string
}

// durableSinks leaves standard output out, which is on no disk as far as we know.
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

// syncer is sync, or nil if there is nothing to sync.
func (l durableList) syncer() func() error {
	if len(l) == 0 {
		return nil
	}
	return l.sync
}

// sync puts all of them on their disks. It may be called beside whoever writes.
func (l durableList) sync() error {
	for _, d := range l {
		if err := d.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", d.path, err)
		}
	}
	return nil
}

// resume brings back what earlier runs of the crawl had, if there were any, and notes what this one is about. It may
// end with ctx before it is done; nothing may be leased then. It returns the seeds to begin with: those given, and
// before them those of a run that ended before all of them were in the state.
func (c *Crawler) resume(ctx context.Context, given []canonical.URL, asked []pipeline.Seed, more bool) ([]canonical.URL, error) {
	early, before, err := c.state.earlier()
	if err != nil {
		return nil, stateError(c.state.dir, err)
	}
	c.pipe.Give(before...)
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
		readmit(c, it.URL, it.Hops == 0)
	}
	if err := c.recount(ctx); err != nil {
		return nil, err
	}
	for _, u := range early {
		readmit(c, u, true)
	}
	for _, s := range before {
		readmit(c, s.URL, true)
	}
	c.admitSeeds(ctx, given, asked) // before what they allow is kept
	all := append(early, given...)
	var seeds []string
	for _, u := range all {
		seeds = append(seeds, u.String())
	}
	for _, s := range append(before, asked...) {
		seeds = append(seeds, s.String())
	}
	return all, c.state.begin(ctx, c.cfg.Settings, seeds, more, c.cfg.Embedded)
}

// earlier are the seeds of a run that ended before all of them were in the store, and those of them that are asked for
// by more than their URLs.
func (s *State) earlier() (plain []canonical.URL, asked []pipeline.Seed, err error) {
	for _, line := range s.seeds {
		text, q, err := pipeline.ReadSeed(line)
		if err != nil {
			return nil, nil, err
		}
		if q.URL, err = parseSeed(text); err != nil {
			return nil, nil, err
		}
		if q.Plain() {
			plain = append(plain, q.URL)
		} else {
			asked = append(asked, q)
		}
	}
	return plain, asked, nil
}

// recountTold is how many URLs take long enough to be told of: with one pattern two to three seconds.
const recountTold = 1_000_000

// recount has the budgets of patterns as earlier runs have left them. The state has no counters for them, as the
// patterns may be others now.
func (c *Crawler) recount(ctx context.Context) error {
	if !c.state.resumed || len(c.cfg.Scope.Budgets) == 0 {
		return nil
	}
	store := c.state.store
	if n := store.Left().Known; n >= recountTold {
		c.log.Info("counting the URLs of earlier runs for scope.budgets", slog.Int64("urls", n))
	}
	err := c.pipe.Recount(func(yield func(string, error) bool) {
		for u, err := range store.URLs() {
			if ctx.Err() != nil || !yield(u, err) {
				return
			}
		}
	})
	return stateError(c.state.dir, err)
}

// noteSeeded notes in the state when all seeds are there. Those that were cut short by a limit, by Stop or by the end
// of ctx are not all.
func (c *Crawler) noteSeeded(ctx context.Context, seeds iter.Seq[canonical.URL]) iter.Seq[canonical.URL] {
	return func(yield func(canonical.URL) bool) {
		for u := range seeds {
			if !yield(u) {
				return
			}
		}
		// Discovery has taken the last one out of our hands. When it looks up again it has stored it.
		c.pipe.Revise()
		select {
		case <-c.pipe.Halted():
			return
		default:
		}
		if c.stopped.Err() == nil && ctx.Err() == nil {
			// It becomes durable with the batch that ends next: to end one here would cut the frontier's in two.
			c.state.store.SetMeta(metaAllSeeds, yes)
		}
	}
}

// noteEnd ends the last batch of a run: what was told of tries and seeds since the one before, what Reload has changed,
// and why it came to its end. While it is open, learned rates could not be saved.
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

// Checkpoint waits until all that was written so far is on the disk, with the state of the crawl as of then. Without a
// state it does nothing.
func (c *Crawler) Checkpoint(ctx context.Context) error {
	if c.state == nil {
		return nil
	}
	return stateError(c.state.dir, c.state.store.Flush(ctx))
}

// StateFigures is how a state stands.
type StateFigures struct {
	Pending, Limit         int64 // operations not yet written, and how many of them may be
	Queued, Done           int64 // URLs, as of the last commit
	IndexMemory, IndexDisk int64 // bytes
	Failed                 bool  // nothing is written any more
}

// Figures are as of now.
func (s *State) Figures() StateFigures {
	counts := s.store.Counts()
	k := StateFigures{Queued: counts.Queued, Done: counts.Done, Failed: s.store.Err() != nil}
	k.Pending, k.Limit = s.store.Pending()
	k.IndexMemory, k.IndexDisk = s.store.SeenBytes()
	return k
}
