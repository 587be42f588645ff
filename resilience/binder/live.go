package binder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	Poll   time.Duration // time between two reads of the source while [LiveChain.Run] runs; zero means 5 s
	// OnReload, if set, is called when a reload found something new, on the goroutine of the reload. m is the model in
	// use; err is nil, or why the new document was not taken. The same error is reported only once in a row. After an
	// error, OnReload is called with nil when the document is good again, even if it is the old one.
	OnReload func(m *Model, err error)
}

// LiveChain is a chain that follows the document of a source. A new document replaces the chain at once. A request stays
// on the chain on which it began, until the end of the response's body. A document with errors changes nothing.
//
// It starts no goroutine: the caller runs Run. All methods are safe for concurrent use.
type LiveChain struct {
	cfg     LiveConfig
	base    http.RoundTripper
	opts    HTTPOptions                // its circuit is that of the current chain
	current atomic.Pointer[generation] // nil after Close

	mu     sync.Mutex // held during a reload, so that there is one at a time; guards what follows, and opts
	data   []byte     // the document of current
	failed string     // text of the last error, to report it only once
}

// generation is a chain and its document. It is never closed: later requests do not get it, and it has no resources.
type generation struct {
	model *Model
	chain *Chain
}

// NewLiveChain loads and binds the first document. A later document keeps the circuit of the one before if the section
// CircuitBreaker is the same. Errors are those of the source, [Load] or [BindHTTP].
func NewLiveChain(ctx context.Context, cfg LiveConfig, base http.RoundTripper, o HTTPOptions) (*LiveChain, error) {
	switch {
	case cfg.Source == nil:
		return nil, errors.New("binder: LiveConfig.Source is nil: give File or a function")
	case cfg.Poll < 0:
		return nil, fmt.Errorf("binder: LiveConfig.Poll is %v: give a positive duration, or zero for %v", cfg.Poll, defaultPoll)
	}
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	l := &LiveChain{cfg: cfg, base: base, opts: o}
	g, data, err := l.look(ctx, nil)
	if err != nil {
		return nil, err
	}
	l.data = data
	l.current.Store(g)
	return l, nil
}

// look reads the source and binds the document, or returns old if the document means the same as old's.
func (l *LiveChain) look(ctx context.Context, old *generation) (g *generation, data []byte, err error) {
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
	chain, err := BindHTTP(m, l.base, l.opts)
	if err != nil {
		return nil, nil, err
	}
	l.opts.carried = nil
	if core := chain.Policies.Circuit; core != nil {
		l.opts.carried = &settled{*m.CircuitBreaker, core}
	}
	return &generation{m, chain}, data, nil
}

// Reload reads the source now, and reports whether the chain was replaced. On an error it was not.
func (l *LiveChain) Reload(ctx context.Context) (changed bool, err error) {
	changed, news, err := l.reload(ctx)
	if news != nil && l.cfg.OnReload != nil {
		l.cfg.OnReload(news, err)
	}
	return changed, err
}

// reload returns the model in use if OnReload must be called.
func (l *LiveChain) reload(ctx context.Context) (changed bool, news *Model, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.current.Load()
	if old == nil {
		return false, nil, resilience.ErrClosed
	}
	g, data, err := l.look(ctx, old)
	switch {
	case err != nil && ctx.Err() != nil:
		return false, nil, err // the caller's context has ended, so the document is not to blame
	case err != nil:
		if err.Error() != l.failed {
			news, l.failed = old.model, err.Error()
		}
		return false, news, err
	}
	if l.failed != "" || g != old { // the end of an error that was reported is news too
		news = g.model
	}
	l.data, l.failed = data, ""
	l.current.Store(g)
	return g != old, news, nil
}

// Run reads the source every Poll until ctx ends. It returns ctx's error, or [resilience.ErrClosed] after Close.
// Changes are reported to OnReload.
func (l *LiveChain) Run(ctx context.Context) error {
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
func (l *LiveChain) Model() *Model {
	if g := l.current.Load(); g != nil {
		return g.model
	}
	return nil
}

// RoundTrip sends a request through the current chain. After Close it fails with [resilience.ErrClosed].
func (l *LiveChain) RoundTrip(req *http.Request) (*http.Response, error) {
	g := l.current.Load()
	if g == nil {
		if req.Body != nil {
			_ = req.Body.Close() // the caller gets the other error
		}
		return nil, resilience.ErrClosed
	}
	return g.chain.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the transport at the end of the chain.
func (l *LiveChain) CloseIdleConnections() { closeIdle(l.base) }

// Close makes later requests fail with [resilience.ErrClosed]. Requests in flight go on. Its error is nil.
func (l *LiveChain) Close() error {
	l.mu.Lock() // no reload is in progress, and later ones fail
	defer l.mu.Unlock()
	l.current.Store(nil)
	return nil
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
