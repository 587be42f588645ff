package crawl

import (
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/record"
)

// StateConfig names a state. Dir is required.
type StateConfig struct {
	// Dir is a directory used for nothing else, on a local disk.
	Dir string
	// Version is written into the state, for people, as the version of the program. Empty writes none.
	Version string
	// Log receives messages about what takes long or had to be repaired. Nil means none.
	Log *slog.Logger
}

// State is a directory in which a crawl is saved as it runs: the URLs and their results, the positions of sinks, the
// rates of hosts, and the options, with the values of headers in clear, in files that only their owner can read.
// [Options.StateDir] creates one. [OpenState] opens it to resume the crawl: pass [State.Options] to [New]. The
// [Crawler] closes it at the end of its run. While it is open no other process can open it.
//
// It survives any end of the process. What the last tenth of a second brought may be fetched again, and is recorded
// once; see [State.Position].
//
// Its methods except Close are safe for concurrent use.
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

// OpenState opens the state of a crawl that has ended, whatever ended it. If the crawl was done, nothing is left to do;
// see [State.Done]. [State.Options] has the options that it began with. The error wraps [fs.ErrNotExist] if there is no
// state, or one of a process that was killed before the crawl began, which [New] replaces; and it names the process that
// has the state open, if one has.
func OpenState(cfg StateConfig) (*State, error) {
	return wrapState(assembly.OpenState(cfg.inner()))
}

// Again configures a new round.
type Again struct {
	// MaxAge leaves out pages that were answered no longer ago than that. URLs that were refused or failed in the last
	// round are requested in any case. Zero leaves out nothing.
	MaxAge time.Duration
	// Unfinished starts a round although the last one was interrupted. What that one left is visited in the new one.
	Unfinished bool
}

// ErrUnfinished is the error of [OpenAgain] for a crawl whose last run was interrupted or failed and has URLs left.
var ErrUnfinished = assembly.ErrUnfinished

// OpenAgain opens the state of a crawl for another round, which requests every URL that the state knows, and those
// found on the way. It sends the ETag or Last-Modified of the known version, so that an unchanged page costs only a
// 304, and [record.Record.Change] says of each page whether it is new, changed, unchanged or gone.
//
// [State.Options] has the options of the last round. The new round begins with [New]; if it is interrupted, [OpenState]
// resumes it. Give it other sinks than the last round, whose files are complete.
//
// URLs that the last round left because of a limit, or on hosts that refused requests, are queued behind those that
// were visited: with the same limit a round visits about the same pages. The error is [ErrUnfinished] if the last run
// was interrupted, unless again.Unfinished is set, and otherwise as for OpenState.
func OpenAgain(cfg StateConfig, again Again) (*State, error) {
	return wrapState(assembly.OpenAgain(cfg.inner(), assembly.Again(again)))
}

// Dir is the directory.
func (s *State) Dir() string { return s.inner.Dir() }

// Options are the options of the saved crawl that a settings file can hold, and the state itself. The program adds the
// rest, such as hooks and sinks, and may change what is there.
func (s *State) Options() Options {
	o := Options{State: s}
	settings := s.inner.Config().Settings
	config.ToProgram(&settings, &o)
	return o
}

// Left returns what the state had when it was opened or when a new round began: URLs to be visited, and pages that
// earlier runs of this round visited, which count towards MaxPages.
func (s *State) Left() (queued, pages int64) { return s.inner.Left() }

// Obtained reports whether an earlier run of this round got a page from a host.
func (s *State) Obtained() bool { return s.inner.Obtained() }

// Seeded reports whether the state has all seeds of earlier runs. If not, the next run takes those given to
// [Crawler.Run] from the state; a sequence must be given to [Crawler.RunSeq] again, where known seeds change nothing.
func (s *State) Seeded() bool { return s.inner.Seeded() }

// Done reports whether earlier runs left nothing to do.
func (s *State) Done() bool { return s.inner.Done() }

// Position is how far the sink with that path was when the state was last saved; zero if the state does not know it.
// Cut the sinks of a resumed crawl back to it, or records will be there twice.
func (s *State) Position(path string) record.Position { return s.inner.Position(path) }

// Round is the number of the present round, from 1; after [OpenAgain], that of the round that begins.
func (s *State) Round() int { return s.inner.Round() }

// Close closes a state that was not given to a Crawler.
func (s *State) Close() error { return inProgram(s.inner.Close()) }

// StateError is an error of a crawl's state. What was committed before it is kept.
type StateError struct {
	// Dir is the directory of the state.
	Dir string
	// Err is the cause. It is [fs.ErrExist] if a new state was to be created where there is one, and [fs.ErrNotExist]
	// if there is none.
	Err error
}

// Error says what is wrong and usually what to do.
func (e *StateError) Error() string { return assembly.TextInProgram(e.Err, e.Dir) }

// Unwrap returns Err.
func (e *StateError) Unwrap() error { return e.Err }
