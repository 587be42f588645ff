package crawl

import (
	"bufio"
	"context"
	"iter"
	"os"
	"strings"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/record"
)

// The ends of a crawl that a caller may want to tell apart. All others are nil, the
// context's error, or the error of a sink or handler.
var (
	// ErrSeed means that a seed is no URL to begin from, or that there was none.
	ErrSeed = assembly.ErrSeed
	// ErrUnreachable means that no seed answered, not even with an error status. It comes with the error of the first request,
	// so that errors.Is tells a refused connection from a name that does not exist.
	ErrUnreachable = assembly.ErrUnreachable
	// ErrBlocked means that URLs are left, all on hosts that refuse to be asked, or that
	// nothing could be asked for because no host gave its robots.txt.
	ErrBlocked = assembly.ErrBlocked
)

// Crawler is one crawl. Its methods are safe for concurrent use.
type Crawler struct{ inner *assembly.Crawler }

// New builds a crawl and fetches nothing. The error lists every field that is wrong, with the fix; or it is a
// [*StateError] or a [*FleetError]. A Crawler with a state of which Run is not called must be closed.
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

// Run crawls from the seeds until everything in scope is visited, a limit of the options is reached, or
// [Crawler.Stop] is called, and then returns nil. A seed that is no URL is an error before anything is fetched. When
// ctx ends, Run gives up what is under way and returns its error. See [ErrUnreachable] and [ErrBlocked] for the rest.
// A Crawler runs once.
func (c *Crawler) Run(ctx context.Context, seeds ...string) error {
	return inProgram(c.inner.Run(ctx, seeds...))
}

// RunSeq is Run with more seeds behind the first, that come as the crawl goes: a million of them, or from a pipe. One
// of them that is no URL is logged and left out. A sequence that may have to wait for the next seed must end when ctx
// does, or when [Crawler.Halted] is closed: RunSeq waits for it. One that ends for want of what it reads from should
// call [Crawler.Stop] first, or the state will have it that these were all seeds.
func (c *Crawler) RunSeq(ctx context.Context, more iter.Seq[string], first ...string) error {
	return inProgram(c.inner.RunSeq(ctx, more, first...))
}

// Crawl crawls like [Crawler.Run] and yields each visited URL, redirects, sitemaps and failures included: [Page.OK] tells
// pages from those. The Body of a page is valid until the loop takes the next one, see [Page.Clone]; until then the crawl
// counts the page as under way, and what it follows and emits is written with it. The crawl is a few pages ahead of the
// loop, and waits for it. An error is yielded once, last, with a nil page.
//
// Leaving the loop stops the crawl: what is under way has a second to end. Pages that the loop did not get have no record;
// with a state the next run asks for them, for some a second time.
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

// Stop ends a crawl in order: nothing new is begun, what is under way is finished and recorded, or cancelled when the
// [Options.Grace] is over, and Run returns. It waits for an OnPage that does not heed its context and for a sink
// that blocks. Stop may be called at any time and more than once.
func (c *Crawler) Stop() { c.inner.Stop() }

// Halted is closed when no more seeds are wanted: a limit of the options was reached,
// Stop was called, or the crawl is over.
func (c *Crawler) Halted() <-chan struct{} { return c.inner.Halted() }

// Stopping is closed when the crawl is to end within [Options.Grace], because Stop
// was called or MaxTime is over. It stays open if the crawl ends before that.
func (c *Crawler) Stopping() <-chan struct{} { return c.inner.Stopping() }

// Snapshot tells the state of the crawl, at any time before, during and after it.
func (c *Crawler) Snapshot() Snapshot {
	s := c.inner.Snapshot()
	return snapshotOf(&s)
}

// Checkpoint waits until all that was written so far is on the disk, with the state of the
// crawl as of then, so that a copy of the directory and of the sinks' files is one of a crawl
// that can be resumed. Without a state it does nothing. It may be called at any time.
func (c *Crawler) Checkpoint(ctx context.Context) error { return inProgram(c.inner.Checkpoint(ctx)) }

// Close gives up the state of a Crawler whose Run was not called, or its place in a job. After
// that, and without either, it does nothing.
func (c *Crawler) Close() error { return inProgram(c.inner.Close()) }

// ArchiveConfig says where exchanges are archived, and how. Dir is required.
type ArchiveConfig struct {
	// Dir is a directory, which is made if need be, or a file if File is set.
	Dir string
	// File makes one archive of all, without an index, of which Dir is the file. It is
	// compressed if its name ends in .gz. False: a series of archives in a directory.
	File bool
	// Options are those of the crawl. Their Archive says how to write, and what else is not as by default is told in the
	// archives, but for secrets; Output.Overwrite has archives of other crawls with the same prefix replaced.
	Options Options
	// Resume is how far the archives were that a crawl goes on with: its [State.Position].
	// What they have behind that is cut off. Nil begins new ones.
	Resume *record.Position
	// GoOn writes behind what is there, for a process that restarts and knows no Position: what follows the last whole
	// exchange is cut off. False, or with Resume or Output.Overwrite: it does not.
	GoOn bool
}

// OpenArchive opens a directory for web archives, WARC/1.1 files with an index beside each, or one such file: a sink
// for [Options.Archives], to be closed after the crawl. Its [record.Position] has the path of the directory, or of the file.
func OpenArchive(cfg ArchiveConfig) (record.Durable, error) {
	settings, err := cfg.Options.settings()
	if err != nil {
		return nil, err
	}
	archive, err := assembly.OpenArchive(assembly.ArchiveConfig{
		Dir: cfg.Dir, File: cfg.File, Settings: settings, Version: cfg.Options.Version, Resume: cfg.Resume, GoOn: cfg.GoOn,
	})
	if err != nil {
		return nil, &programError{err, strings.ReplaceAll(err.Error(), "--overwrite", "Options.Output.Overwrite")}
	}
	return archive, nil
}

// FleetError is trouble with a crawl of several processes or with its Redis.
type FleetError struct {
	// Job names the job.
	Job string
	// Err is what is wrong; it is [ErrNoJob] or [ErrJobComplete], among others.
	Err error

	text string
}

// Error says what is wrong and what to do.
func (e *FleetError) Error() string { return e.text }

// Unwrap is what is wrong.
func (e *FleetError) Unwrap() error { return e.Err }

// ErrNoJob is what a [FleetError] is if the job to join is not there.
var ErrNoJob = assembly.ErrNoJob

// ErrJobComplete is what a [FleetError] is if the job to join has nothing left to do.
var ErrJobComplete = assembly.ErrJobComplete
