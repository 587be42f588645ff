package binder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/resilience"
)

// defaultPoll is soon enough for a person who has saved a file.
const defaultPoll = 5 * time.Second

// LiveConfig says where documents come from and what becomes of them.
type LiveConfig struct {
	Source Source        // gives the document; nil is an error
	Poll   time.Duration // between two looks at the source while [Live.Run] runs; zero means 5 s
	// OnReload, if set, is called by the goroutine that looked when it found something new: with the model in use, and
	// nil or why the new one is not. An error is told once in a row, and nil after it also if the old document is
	// back.
	OnReload func(m *Model, err error)
}

// Live is what is built of the newest good document of a source. A new one replaces the old at once; uses under way
// end on the old one, which the last of them closes. A bad document changes nothing.
//
// It starts no goroutine: the caller runs Run. All methods are safe for concurrent use.
type Live[C io.Closer] struct {
	cfg   LiveConfig
	build func(*Model) (C, error)

	current atomic.Pointer[generation[C]] // nil after Close

	mu     sync.Mutex // has one document looked at at a time; guards what follows
	data   []byte     // the document of current
	failed string     // the last error, to tell it once

	closeErr atomic.Pointer[error] // the first of those of the generations that are over
}

type generation[C io.Closer] struct {
	live  *Live[C]
	model *Model
	value C
	uses  atomic.Int64 // under way, and one for being the current one
	end   func(error)  // leave, in the form a Bind takes
}

// NewLive loads the first document and builds of it. Errors are the source's, [Load]'s or build's. build is not called
// concurrently.
func NewLive[C io.Closer](ctx context.Context, cfg LiveConfig, build func(*Model) (C, error)) (*Live[C], error) {
	switch {
	case cfg.Source == nil:
		return nil, errors.New("binder: LiveConfig.Source is nil: give File or a function")
	case cfg.Poll < 0:
		return nil, fmt.Errorf("binder: LiveConfig.Poll is %v: give a positive duration, or zero for %v", cfg.Poll, defaultPoll)
	}
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	l := &Live[C]{cfg: cfg, build: build}
	g, data, err := l.look(ctx, nil)
	if err != nil {
		return nil, err
	}
	l.data = data
	l.current.Store(g)
	return l, nil
}

// look builds of the source's document, unless it asks for what old was built of.
func (l *Live[C]) look(ctx context.Context, old *generation[C]) (g *generation[C], data []byte, err error) {
	if data, err = l.cfg.Source(ctx); err != nil {
		return nil, nil, err
	}
	if old != nil && bytes.Equal(data, l.data) {
		return old, data, nil
	}
	m, err := Load(data)
	if err != nil {
		return nil, nil, err
	}
	if old != nil && m.Equal(old.model) {
		return old, data, nil
	}
	g = &generation[C]{live: l, model: m}
	g.end = func(error) { g.leave() }
	g.uses.Store(1)
	g.value, err = l.build(m)
	return g, data, err
}

// Reload looks at the source now, and reports whether what is in use has changed; on an error it has not.
func (l *Live[C]) Reload(ctx context.Context) (changed bool, err error) {
	old, news, err := l.reload(ctx)
	if old != nil {
		old.leave()
	}
	if news != nil && l.cfg.OnReload != nil {
		l.cfg.OnReload(news, err)
	}
	return old != nil, err
}

// reload returns the replaced generation, if any, and the model in use, if there is something to tell.
func (l *Live[C]) reload(ctx context.Context) (replaced *generation[C], news *Model, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.current.Load()
	if old == nil {
		return nil, nil, resilience.ErrClosed
	}
	g, data, err := l.look(ctx, old)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, err // the caller's doing, and not the document's
	case err != nil:
		if err.Error() != l.failed {
			news, l.failed = old.model, err.Error()
		}
		return nil, news, err
	}
	if l.failed != "" {
		news = old.model // whoever was told of the error waits to hear that it is over
	}
	l.data, l.failed = data, ""
	if g == old {
		return nil, news, nil
	}
	l.current.Store(g)
	return old, g.model, nil
}

// Run looks at the source every Poll until ctx ends, and returns its error, or [resilience.ErrClosed] after Close.
// OnReload hears of changes.
func (l *Live[C]) Run(ctx context.Context) error {
	for {
		if err := clock.Sleep(ctx, clock.System(), l.cfg.Poll); err != nil {
			return err
		}
		// Every other error has been told, and the next document may be better.
		if _, err := l.Reload(ctx); errors.Is(err, resilience.ErrClosed) {
			return err
		}
	}
}

// Model is the document in use; nil after Close.
func (l *Live[C]) Model() *Model {
	if g := l.current.Load(); g != nil {
		return g.model
	}
	return nil
}

// use is the current generation, which stays open until its leave.
func (l *Live[C]) use() (*generation[C], error) {
	for {
		g := l.current.Load()
		if g == nil {
			return nil, resilience.ErrClosed
		}
		if g.enter() {
			return g, nil
		}
		// It has been replaced and closed since it was loaded, so there is another one.
	}
}

// Close makes later uses fail; those under way go on, and the last closes what is current. The error is that of
// closing so far.
func (l *Live[C]) Close() error {
	l.mu.Lock() // no look is under way, and none comes after it
	g := l.current.Swap(nil)
	l.mu.Unlock()
	if g != nil {
		g.leave()
	}
	if err := l.closeErr.Load(); err != nil {
		return *err
	}
	return nil
}

// enter begins a use, unless the generation is over.
func (g *generation[C]) enter() bool {
	for n := g.uses.Load(); n > 0; n = g.uses.Load() {
		if g.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (g *generation[C]) leave() {
	if g.uses.Add(-1) > 0 {
		return
	}
	if err := g.value.Close(); err != nil {
		g.live.closeErr.CompareAndSwap(nil, &err) // a Live may see any number of documents
	}
}

// Source returns the document as it is now, never to be changed afterwards. It is not called concurrently.
type Source func(ctx context.Context) ([]byte, error)

// File is the document in a file, read only as far as [Load] allows.
func File(path string) Source {
	return func(context.Context) ([]byte, error) {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() { // a pipe would block, a directory gives a worse message
			return nil, fmt.Errorf("%s is not a regular file", path)
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // nothing was written
		return io.ReadAll(io.LimitReader(f, DocumentMax+1))
	}
}
