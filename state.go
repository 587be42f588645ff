package crawl

import (
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/record"
)

// StateConfig says which state. Dir is required.
type StateConfig struct {
	// Dir is a directory of its own, on a disk of this machine.
	Dir string
	// Version names the program in the state, for people. Empty: not told.
	Version string
	// Log is told of what takes long or had to be repaired. Nil means nobody is.
	Log *slog.Logger
}

// State is a directory in which a crawl is kept as it goes: the URLs and what became of them, how far sinks are, the
// rates of hosts, and the options with the values of headers as they were given, in files for their owner alone.
// [Options.StateDir] makes one, and [OpenState] opens that of a crawl to be resumed: [State.Options] gives it to a
// [Crawler], which closes it at the end of its run. Until then the directory is this process's.
//
// It survives whatever ends the process. What the last tenth of a second brought may be
// fetched again, and is recorded once: see [State.Position].
//
// Its methods are safe for concurrent use, but for Close.
type State struct{ inner *assembly.State }

func (s *State) unwrap() *assembly.State {
	if s == nil {
		return nil
	}
	return s.inner
}

func (c StateConfig) inner() assembly.StateConfig {
	return assembly.StateConfig{Dir: c.Dir, Version: c.Version, Log: c.Log}
}

func wrapState(inner *assembly.State, err error) (*State, error) {
	if err != nil {
		return nil, inProgram(err)
	}
	return &State{inner}, nil
}

// OpenState opens the state of a crawl that has ended, however it ended; one that is done has nothing left to do, see [State.Done]. [State.Options] has what it was begun with. The error is [fs.ErrNotExist] if there is none; another process that has it is named.
func OpenState(cfg StateConfig) (*State, error) {
	return wrapState(assembly.OpenState(cfg.inner()))
}

// Again says what a new round is about.
type Again struct {
	// MaxAge leaves out pages that were answered no longer ago than that. What was refused
	// or could not be had the last time is asked for in any case. Zero leaves out nothing.
	MaxAge time.Duration
	// Unfinished has a round begin though the last one was interrupted. What that has left is visited in this one.
	Unfinished bool
}

// ErrUnfinished means that a new round was asked for of a crawl whose last run was interrupted,
// or failed, and has URLs left.
var ErrUnfinished = assembly.ErrUnfinished

// OpenAgain opens the state of a crawl for another round: every URL that it knows is asked for again, and what is
// found on the way is, too. A host is asked by what it called the version that is known (ETag, Last-Modified), so that
// what has not changed is answered with 304 and costs a header, and [record.Record.Change] says of each page whether it is
// new, changed, unchanged or gone.
//
// [State.Options] has what the round before was begun with. The new one begins with [New], and is gone on with by
// [OpenState] if it is interrupted. Its sinks should be others than those of the round before, which are closed.
//
// What the round before has left beyond a limit, or of hosts that refused to be asked, is still queued, behind what was
// visited: with the same limit a round is about the same pages. The error is [ErrUnfinished] if the last run did not
// come to an end of its own, unless again.Unfinished says that this does not matter, and otherwise as with OpenState.
func OpenAgain(cfg StateConfig, again Again) (*State, error) {
	return wrapState(assembly.OpenAgain(cfg.inner(), assembly.Again(again)))
}

// Dir is the directory.
func (s *State) Dir() string { return s.inner.Dir() }

// Options are what the crawl was begun with, for the crawl that goes on: what a settings file can hold, and the state itself.
// Programs add the rest, such as hooks and sinks, and may change what is there.
func (s *State) Options() Options {
	o := Options{State: s}
	settings := s.inner.Config().Settings
	config.ToProgram(&settings, &o)
	return o
}

// Left is what the state had when it was opened, or when a new round began: URLs that are still to be visited, and
// pages that earlier runs of this round have visited, which count for MaxPages of the options.
func (s *State) Left() (queued, pages int64) { return s.inner.Left() }

// Obtained reports whether earlier runs of this round had a page from a host.
func (s *State) Obtained() bool { return s.inner.Obtained() }

// Seeded reports whether all seeds of earlier runs are in the state. If they are not, the
// next run has those that were given to [Crawler.Run] from the state; those of a sequence
// have to be given to [Crawler.RunSeq] again, where the ones that are known do no harm.
func (s *State) Seeded() bool { return s.inner.Seeded() }

// Done reports whether earlier runs have left nothing to do.
func (s *State) Done() bool { return s.inner.Done() }

// Position is how far the sink of that path was when the state last heard of it; zero if it never did. Before a crawl
// goes on its sinks are to be cut back to that, or records would be there twice.
func (s *State) Position(path string) record.Position { return s.inner.Position(path) }

// Round is the number of the round that the crawl is in, or will be with the Crawler of a
// state that was opened by [OpenAgain]. The first is 1.
func (s *State) Round() int { return s.inner.Round() }

// Close gives up a state that no Crawler was built with.
func (s *State) Close() error { return inProgram(s.inner.Close()) }

// StateError is trouble with the state of a crawl. What was committed before is kept.
type StateError struct {
	// Dir is the directory of the state.
	Dir string
	// Err is what is wrong. It is [fs.ErrExist] if there is a state where a new one was to be, and [fs.ErrNotExist] if
	// there is none.
	Err error

	text string
}

// Error says what is wrong and mostly what to do.
func (e *StateError) Error() string { return e.text }

// Unwrap is what is wrong.
func (e *StateError) Unwrap() error { return e.Err }
