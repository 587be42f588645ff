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

// defaultPoll is soon enough for a person who has saved the file.
const defaultPoll = 5 * time.Second

// LiveConfig says where documents come from and who is told of changes.
type LiveConfig struct {
	Source Source        // returns the document; nil is an error
	Poll   time.Duration // time between two reads of the source while [Live.Run] runs; zero means 5 s
	// OnReload, if set, is called when a reload found something new, on the goroutine of the reload. m is the model in
	// use; err is nil, or why the new document was not taken. The same error is reported only once in a row. After an
	// error, OnReload is called with nil when the document is good again, even if it is the old one.
	OnReload func(m *Model, err error)
}

// Live holds the value that was built from the newest good document of a source. A new document replaces the value at
// once. Uses in flight end on the old value, and the last of them closes it. A document with errors changes nothing.
//
// It starts no goroutine: the caller runs Run. All methods are safe for concurrent use.
type Live[C io.Closer] struct {
	cfg   LiveConfig
	build func(*Model) (C, error)

	current atomic.Pointer[generation[C]] // nil after Close

	mu     sync.Mutex // held during a reload, so that there is one at a time; guards what follows
	data   []byte     // the document of current
	failed string     // text of the last error, to report it only once

	closeErr atomic.Pointer[error] // the first error of closing a value
}

type generation[C io.Closer] struct {
	live  *Live[C]
	model *Model
	value C
	uses  atomic.Int64 // uses in flight, plus one while it is current
	end   func(error)  // leave, with the signature that a Bind needs
}

// NewLive loads the first document and calls build with its model. Errors are those of the source, [Load] or build.
// build is not called concurrently.
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

// look reads the source and builds the document's value, or returns old if the document means the same as old's.
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

// Reload reads the source now, and reports whether the value in use was replaced. On an error it was not.
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

// reload returns the generation that was replaced, if any, and the model in use if OnReload must be called.
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
		return nil, nil, err // the caller's context has ended, so the document is not to blame
	case err != nil:
		if err.Error() != l.failed {
			news, l.failed = old.model, err.Error()
		}
		return nil, news, err
	}
	if l.failed != "" {
		news = old.model // the error was reported, so report its end
	}
	l.data, l.failed = data, ""
	if g == old {
		return nil, news, nil
	}
	l.current.Store(g)
	return old, g.model, nil
}

// Run reads the source every Poll until ctx ends. It returns ctx's error, or [resilience.ErrClosed] after Close.
// Changes are reported to OnReload.
func (l *Live[C]) Run(ctx context.Context) error {
	for {
		if err := clock.Sleep(ctx, clock.System(), l.cfg.Poll); err != nil {
			return err
		}
		// All other errors were reported, and the next document may be good.
		if _, err := l.Reload(ctx); errors.Is(err, resilience.ErrClosed) {
			return err
		}
	}
}

// Model returns the model in use, or nil after Close.
func (l *Live[C]) Model() *Model {
	if g := l.current.Load(); g != nil {
		return g.model
	}
	return nil
}

// use begins a use of the current generation, which stays open until leave is called.
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

// Close makes later uses fail with [resilience.ErrClosed]. Uses in flight go on, and the last of them closes the value.
// Close returns the first error of closing a value so far.
func (l *Live[C]) Close() error {
	l.mu.Lock() // no reload is in progress, and later ones fail
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

// enter begins a use, unless the generation is closed.
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
		g.live.closeErr.CompareAndSwap(nil, &err) // only the first error is kept, because a Live may see any number of documents
	}
}

// Source returns the present document, which must not be changed afterwards. It is not called concurrently.
type Source func(ctx context.Context) ([]byte, error)

// File returns a Source that reads the file at path, up to the size that [Load] allows.
func File(path string) Source {
	return func(context.Context) ([]byte, error) {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() { // opening a pipe would block, and reading a directory gives a worse message
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
