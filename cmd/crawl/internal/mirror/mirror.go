// Package mirror makes a copy of a site that can be opened without a network, and keeps it up to date.
//
// # What is where
//
// A URL with its media type has one file, see nameOf. If two URLs would have the same file, also on a file system that
// ignores case, the later one has a hash in its name. A document whose links can be rewritten is kept byte by byte in a
// pack in .crawl; any other file is in its place in the copy as it was received. An index, in memory and as a journal,
// has for each URL its file, the validators (ETag, Last-Modified) of this version, and where it redirects to.
//
// # When links are rewritten
//
// A link leads to a file only if the file exists, which is known when the crawl has ended. So at that time settle
// writes each page from its received bytes. Every file is written whole, by a rename. So whatever ends the process, a
// file in the copy is the former version or the new one, never half of it, and the same command continues.
//
// # Again
//
// A round begins when the last one has ended. It walks the site from the seeds again, and requests what the copy has
// with If-None-Match and If-Modified-Since. For a page that has not changed, it takes the links from the bytes that
// were kept. A failed request leaves the copy of its URL as it is. Only a round that has seen everything, with
// --delete, deletes what is gone.
//
// Package rewrite says what a link is. Pages are followed within the scope, their parts to any host.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/frontier/version"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/record"
)

// Options say what is mirrored, and where.
type Options struct {
	Dir      string   // the directory of the copy
	Seeds    []string // where to begin; empty means the seeds of the last round
	SameHost bool     // leave out parts of pages that are on other hosts
	Delete   bool     // after a complete round, delete what is gone or no longer linked
	// Keep has the media types of the files to keep, such as "application/pdf" or "image/*". Nil means all. Pages are
	// read for their links in any case.
	Keep []string
	// Crawl has everything else, such as scope, politeness and headers.
	Crawl crawl.Options
	Log   *slog.Logger
}

// Mirror is one run. It is safe for concurrent use.
type Mirror struct {
	o       Options
	index   *index
	pack    *pack
	lock    *os.File
	crawler *crawl.Crawler // nil if everything has been fetched
	temp    atomic.Int64
	round   int
	seen    seen
	scratch sync.Pool             // of *scratch
	unsure  atomic.Bool           // a page of the copy was skipped, so its links are unknown
	failed  atomic.Pointer[error] // of the disk; it ends the crawl
	full    bool                  // the crawl has seen everything
	dead    bool                  // no seed could be reached, so there is nothing to go on with
	before  []string              // the seeds of the round before
}

// Open locks a copy, or creates it, and finds out what is to be done.
func Open(o Options) (*Mirror, error) {
	if err := checkKept(o.Keep); err != nil {
		return nil, err
	}
	m := &Mirror{o: o, seen: seen{all: make(map[uint64]struct{})}, scratch: sync.Pool{New: func() any { return new(scratch) }}}
	err := m.claim()
	if err == nil {
		m.index, err = openIndex(o.Dir)
	}
	if err == nil {
		m.pack, err = openPack(o.Dir, m.index.head.Pack)
	}
	if err == nil {
		err = m.begin()
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// claim creates the directories and locks them for this process.
func (m *Mirror) claim() error {
	if _, err := os.Stat(m.path(stateDir, journalFile)); errors.Is(err, fs.ErrNotExist) {
		if there, _ := os.ReadDir(m.o.Dir); len(there) > 1 || len(there) == 1 && there[0].Name() != stateDir {
			return cli.Usagef("%s is not empty and is no mirror: give --output a directory that is empty or new", m.o.Dir)
		}
		if len(m.o.Seeds) == 0 {
			return cli.Usagef("%s is no mirror yet: name the URL to begin at", m.o.Dir)
		}
	}
	err := os.MkdirAll(m.o.Dir, 0o777) // the umask of the user takes bits away
	if err == nil {
		err = os.MkdirAll(m.path(stateDir), 0o700)
	}
	if err == nil {
		m.lock, err = os.OpenFile(m.path(stateDir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return cli.Open("--output", err)
	}
	if !sqlitedb.TryLock(m.lock) {
		return cli.IOf("another process is at work in %s: wait until it has ended", m.o.Dir)
	}
	return errors.Join(os.RemoveAll(m.path(stateDir, "tmp")), os.MkdirAll(m.path(stateDir, "tmp"), 0o700))
}

func (m *Mirror) path(parts ...string) string {
	return filepath.Join(append([]string{m.o.Dir}, parts...)...)
}

// begin creates the crawler: that of a round that was interrupted, or that of a new one.
func (m *Mirror) begin() error {
	h, was := &m.index.head, m.index.head
	lost, err := m.verify()
	if err != nil {
		return cli.Write(m.o.Dir, err)
	}
	switch given := !slices.Equal(m.o.Seeds, h.Seeds); {
	case len(m.o.Seeds) == 0:
		m.o.Seeds = h.Seeds
	case h.Open && given:
		return cli.Usagef("%s has a mirror of %s that was interrupted: finish it first with the same command", m.o.Dir, strings.Join(h.Seeds, " "))
	case m.o.Delete && slices.ContainsFunc(h.Seeds, func(s string) bool { return !slices.Contains(m.o.Seeds, s) }):
		return cli.Usagef("--delete would remove what was mirrored of %s: give the same URLs, or another directory", strings.Join(h.Seeds, " "))
	}
	if len(m.o.Seeds) == 0 {
		return cli.Usagef("%s has nothing yet, as no URL could be reached: name the URL to begin at", m.o.Dir)
	}
	options, before := m.options(), h.Seeds
	if m.full = h.Open && h.Full && !lost; !m.full { // else everything is fetched, and not settled
		err = m.goOn(&options, h.Open && !lost)
		if !h.Open {
			h.Round++
		}
		h.Format, h.Open, h.Full, h.Seeds = format, true, false, slices.Clone(m.o.Seeds)
		m.before = before
	}
	if m.round = h.Round; err != nil {
		return err
	}
	if !reflect.DeepEqual(*h, was) { // else each start of a long round would add a line
		err = m.index.add(*h)
	}
	if err = cmp.Or(err, m.index.flush()); err != nil {
		return cli.Write(m.o.Dir, err)
	}
	if !m.full {
		m.crawler, err = crawl.New(options)
	}
	return err
}

// goOn opens the state of an interrupted crawl, if there is one. Otherwise the crawl begins anew.
func (m *Mirror) goOn(o *crawl.Options, open bool) error {
	err := fs.ErrNotExist
	if open {
		o.State, err = crawl.OpenState(crawl.StateConfig{Dir: o.StateDir, Version: o.Version, Log: m.o.Log})
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.RemoveAll(o.StateDir)
	case err != nil:
		return err
	case o.State.Done(): // it ended with an error: walk the site again
		err = errors.Join(o.State.Close(), os.RemoveAll(o.StateDir))
		o.State = nil
	default:
		m.o.Log.Info("going on with a mirror that was interrupted", slog.String("output", m.o.Dir))
	}
	if err != nil {
		return cli.IO(err)
	}
	return nil
}

// options returns the options of the crawl.
func (m *Mirror) options() crawl.Options {
	o := m.o.Crawl
	o.StateDir, o.HandlersFollow, o.Log = m.path(stateDir, "state"), true, m.o.Log
	o.Scope.IgnoreSitemaps, o.Scope.IgnoreFeeds = true, true
	o.Output = crawl.OutputOptions{Record: []string{"no-links", "no-digest"}}
	o.Sinks = []record.Sink{kept{m}}
	o.Bodies = map[string]crawl.BodyHandler{"*/*": {Handle: m.take}}
	o.OnPage, o.OnSkip, o.OnRequest = m.done, m.skip, m.condition
	return o
}

// verify forgets the files that are missing or not whole, as after a power failure: a page that was written just before
// may be empty. It reports whether some must be fetched again.
func (m *Mirror) verify() (lost bool, err error) {
	for _, e := range m.index.all() {
		if e.File == "" {
			continue
		}
		now := *e
		info, missing := os.Stat(m.path(filepath.FromSlash(e.File)))
		switch there := missing == nil && info.Mode().IsRegular(); {
		case e.packed() && e.At+e.Size > m.pack.end.Load(), !e.packed() && (!there || info.Size() != e.Size):
			now.forget()
			lost = true
		case e.Written != 0 && (!there || info.Size() == 0):
			now.Written = 0
		default:
			continue
		}
		err = cmp.Or(err, m.index.put(&now))
	}
	return lost, err
}

// condition makes the request for a file of the copy conditional.
func (m *Mirror) condition(r *http.Request) error {
	if e := m.index.get(r.URL.String()); e.File != "" && e.Redirect == "" {
		version.SetCondition(r.Header, e.ETag, e.Modified)
	}
	return nil
}

// Run crawls and then settles the copy. The report is nil if the copy was not settled.
func (m *Mirror) Run(ctx context.Context) (*Report, error) {
	var err error
	if m.crawler != nil {
		err = m.crawler.Run(ctx, m.o.Seeds...)
		if m.full = err == nil && m.crawler.Snapshot().State == "done" && m.failure() == nil; m.full {
			m.index.head.Full = true
			err = cmp.Or(m.index.add(m.index.head), m.index.flush())
		}
		if m.dead = errors.Is(err, crawl.ErrUnreachable); m.full || m.dead {
			m.keepReached()
		}
	}
	switch failed := m.failure(); {
	case failed != nil:
		return nil, cli.Write(m.o.Dir, failed)
	case ctx.Err() != nil: // forced: written files stay
		return nil, cmp.Or(err, ctx.Err())
	}
	report := m.report()
	if e := m.settle(ctx, report); e != nil && ctx.Err() != nil {
		return nil, cli.IOf("interrupted: the same command goes on")
	} else if e != nil {
		return nil, cli.Write(m.o.Dir, e)
	}
	return report, err
}

// keepReached leaves those seeds out of the next rounds of which nothing was ever received, such as mistyped ones. If
// that is all of them, the seeds of the round before stay.
func (m *Mirror) keepReached() {
	reached := slices.DeleteFunc(slices.Clone(m.o.Seeds), func(seed string) bool {
		u, err := canonical.ParseTyped(seed)
		if err != nil {
			return true
		}
		e := m.index.get(u.String())
		return e.File == "" && e.Redirect == "" && e.Status == 0 && e.Err != ""
	})
	if m.index.head.Seeds = reached; len(reached) == 0 {
		m.index.head.Seeds = m.before
	}
}

// fail ends the crawl if err, from a write to the disk, is not nil.
func (m *Mirror) fail(err error) {
	if err != nil {
		m.failed.CompareAndSwap(nil, &err)
	}
}

func (m *Mirror) failure() error {
	if failed := m.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// kept is the [record.Sink] of the crawl: a URL is done when the journal has it. After a failure no URL is, so that the
// next run requests it again.
type kept struct{ m *Mirror }

func (k kept) Write(*record.Record) error { return k.m.failure() }
func (kept) Close() error                 { return nil }
func (k kept) Flush() error {
	k.m.fail(k.m.index.flush())
	return k.m.failure()
}

// Crawler returns the crawler, or nil if everything had been fetched before.
func (m *Mirror) Crawler() *crawl.Crawler { return m.crawler }

// Close closes the files and unlocks the copy.
func (m *Mirror) Close() (err error) {
	if m.crawler != nil {
		err = m.crawler.Close()
	}
	if m.index != nil {
		err = errors.Join(err, m.index.close())
	}
	if m.pack != nil {
		err = errors.Join(err, m.pack.f.Close())
	}
	if m.lock != nil {
		err = errors.Join(err, m.lock.Close())
	}
	return err
}
