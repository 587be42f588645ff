package crawl

import (
	"bufio"
	"context"
	"iter"
	"os"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/record"
)

// These errors tell how a crawl ended. Any other error of a crawl is the context's, or that of a sink or handler.
var (
	// ErrSeed means that a seed is not a URL that can be fetched, or that there was no seed.
	ErrSeed = assembly.ErrSeed
	// ErrUnreachable means that no seed was answered, not even with an error status. It wraps the error of the first
	// request, so that errors.Is can tell a refused connection from a name that does not exist.
	ErrUnreachable = assembly.ErrUnreachable
	// ErrBlocked means that URLs are left, all of them on hosts that refuse requests for now, or that nothing could be
	// requested because no host answered for its robots.txt.
	ErrBlocked = assembly.ErrBlocked
)

// Crawler is one crawl. Its methods are safe for concurrent use.
type Crawler struct{ inner *assembly.Crawler }

// New builds a crawl; it sends no request. The error names every field that is wrong and says how to mend it, or is a
// [*StateError] or a [*FleetError]. If Run is not called, a Crawler with a state must be closed.
func New(options Options) (*Crawler, error) {
	cfg, err := options.inner()
	if err != nil {
		return nil, err
	}
	if cfg.Sinks == nil {
		cfg.Sinks = []record.Sink{printed{bufio.NewWriter(os.Stdout)}}
	}
	inner, err := assembly.New(cfg)
	if err != nil {
		return nil, inProgram(err)
	}
	return &Crawler{inner}, nil
}

// Run crawls from the seeds until everything in scope is visited, a limit of the options is reached, or [Crawler.Stop]
// is called; then it returns nil. If a seed is not a URL, Run returns an error before it sends a request. When ctx
// ends, Run cancels the requests under way and returns ctx's error. It also returns [ErrUnreachable] and [ErrBlocked].
// A Crawler runs once.
func (c *Crawler) Run(ctx context.Context, seeds ...string) error {
	return inProgram(c.inner.Run(ctx, seeds...))
}

// RunSeq is Run with a sequence of more seeds after the first ones, which it reads as the crawl runs: for a million
// seeds, or seeds from a pipe. A seed of the sequence that is not a URL is logged and left out. RunSeq waits for the
// sequence to return: if it may block, it must return when ctx ends or when [Crawler.Halted] is closed. If its source
// fails, it should call [Crawler.Stop] before it returns; otherwise the state records that all seeds were read.
func (c *Crawler) RunSeq(ctx context.Context, more iter.Seq[string], first ...string) error {
	return inProgram(c.inner.RunSeq(ctx, more, first...))
}

// Crawl crawls like [Crawler.Run] and yields each visited URL, also redirects, sitemaps and failures: [Page.OK] tells
// whether it is a page. The Body of a page is valid until the loop asks for the next page; [Page.Clone] keeps it. Until
// then the page counts as under way, and what it follows and emits is written with it. The crawl runs a few pages ahead
// of the loop and waits for it. An error is yielded once, as the last element, with a nil page.
//
// Leaving the loop stops the crawl: requests under way have a second to end. Pages that the loop did not get have no
// record; with a state the next run requests them, some of them a second time.
func (c *Crawler) Crawl(ctx context.Context, seeds ...string) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		for inner, err := range c.inner.Pages(ctx, seeds...) {
			if err != nil {
				yield(nil, inProgram(err))
				return
			}
			page := newPage(inner)
			more := yield(page, nil)
			if page.Body = nil; !more {
				return
			}
		}
	}
}

// Stop ends a crawl in order: no new request is sent, requests under way are finished and recorded, or canceled after
// [Options.Grace], and Run returns. Stop waits for a handler that ignores its context and for a sink that blocks. It
// may be called at any time and more than once.
func (c *Crawler) Stop() { c.inner.Stop() }

// Halted returns a channel that is closed when the crawl takes no more seeds: a limit of the options was reached, Stop
// was called, or the crawl has ended.
func (c *Crawler) Halted() <-chan struct{} { return c.inner.Halted() }

// Stopping returns a channel that is closed when the crawl is to end within [Options.Grace], because Stop was called or
// MaxTime is over. It stays open if the crawl ends before that.
func (c *Crawler) Stopping() <-chan struct{} { return c.inner.Stopping() }

// Snapshot returns the state of the crawl at this moment. It may be called before, during and after Run.
func (c *Crawler) Snapshot() Snapshot { return assembly.Convert[Snapshot](c.inner.Snapshot()) }

// Checkpoint waits until everything written so far is on disk, together with the state of the crawl at that moment. A
// copy of the state directory and of the sinks' files that is made then can be resumed. Without a state Checkpoint does
// nothing. It may be called at any time.
func (c *Crawler) Checkpoint(ctx context.Context) error { return inProgram(c.inner.Checkpoint(ctx)) }

// Close closes the state of a Crawler whose Run was not called, or leaves the job of a fleet. After Run, or without
// state and fleet, it does nothing.
func (c *Crawler) Close() error { return inProgram(c.inner.Close()) }

// ArchiveConfig configures [OpenArchive]. Dir is required.
type ArchiveConfig struct {
	// Dir is a directory, created if it does not exist, or the name of a file if File is set.
	Dir string
	// File writes one archive, without an index, into the file Dir; its name decides whether it is compressed (.gz).
	// False writes a series of archives into the directory.
	File bool
	// Options are those of the crawl. Options.Archive sets how archives are written. Options that differ from their
	// defaults, except secrets, are noted in the archives. With Output.Overwrite, archives of another crawl with the
	// same prefix are replaced.
	Options Options
	// Resume is the [State.Position] of the archives for a crawl that is resumed: whatever follows that position is cut
	// off. Nil starts new archives.
	Resume *record.Position
	// GoOn appends to archives that are there, for a process that restarts without a Position. What follows the last
	// whole exchange is cut off. It has no effect with Resume or Output.Overwrite.
	GoOn bool
}

// OpenArchive opens WARC/1.1 archives: a directory of files, each with an index, or one file. The result is a sink for
// [Options.Archives]; close it after the crawl. The path of its [record.Position] is the directory or the file.
func OpenArchive(cfg ArchiveConfig) (record.Durable, error) {
	settings, err := cfg.Options.settings()
	if err != nil {
		return nil, err
	}
	archive, err := assembly.OpenArchive(assembly.ArchiveConfig{
		Dir: cfg.Dir, File: cfg.File, Settings: settings, Version: cfg.Options.Version, Resume: cfg.Resume, GoOn: cfg.GoOn,
	})
	if err != nil {
		return nil, assembly.ArchiveInProgram(err, cfg.Dir)
	}
	return archive, nil
}

// FleetError is an error of a crawl of several processes or of its Redis.
type FleetError struct {
	// Job is the name of the job.
	Job string
	// Err is the cause, for example [ErrNoJob] or [ErrJobComplete].
	Err error
}

// Error says what is wrong and what to do.
func (e *FleetError) Error() string { return assembly.TextInProgram(e.Err, e.Job) }

// Unwrap returns Err.
func (e *FleetError) Unwrap() error { return e.Err }

// ErrNoJob is wrapped by the [FleetError] of a process that joins a job which does not exist.
var ErrNoJob = assembly.ErrNoJob

// ErrJobComplete is wrapped by the [FleetError] of a process that joins a job which has nothing left to do.
var ErrJobComplete = assembly.ErrJobComplete
