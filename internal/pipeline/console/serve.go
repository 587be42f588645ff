package console

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// maxConns is how many connections there are at a time; others wait. Each takes some
	// tens of kilobytes.
	maxConns = 128
	// maxHeader is the longest header, in bytes: no client of ours sends a tenth of it.
	maxHeader = 16 << 10
	// A request is a few hundred bytes from nearby: whoever takes longer than these to
	// write one does so to keep a connection. Streams set their own time for each write.
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = time.Minute
	// farewell is how long the end of a crawl may wait for answers that are under way.
	farewell = 2 * time.Second
)

// Serve answers on l, which it closes, until ctx ends. It returns within two seconds of
// that, and nothing it started is left then. The error is that of the socket; nil if it
// was ctx that ended it. It may be called once.
func (c *Console) Serve(ctx context.Context, l net.Listener) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ends after ctx, with the last answer
	defer cancel()
	g := gate{next: c}
	srv := &http.Server{
		Handler:           &g,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		BaseContext:    func(net.Listener) context.Context { return work },
		ErrorLog:       slog.NewLogLogger(c.cfg.Log.Handler(), slog.LevelDebug), // what strangers send is no trouble of ours
	}
	looking, enough := context.WithCancel(ctx)
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		c.record(looking)
	}()
	defer func() {
		enough()
		<-sampled
	}()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(netutil.LimitListener(l, maxConns)) }()
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-served:
	}
	c.streams.end()
	bounded, stop := context.WithTimeout(work, farewell)
	defer stop()
	if srv.Shutdown(bounded) != nil { // the time is over
		cancel()
		_ = srv.Close() // what it could say is that connections are broken
	}
	if failed == nil {
		failed = <-served
	}
	g.shut() // with work ended nothing that they wait for takes long
	if errors.Is(failed, http.ErrServerClosed) {
		return nil
	}
	return failed
}

// gate knows when the last handler has returned, which a server that is closed does not.
type gate struct {
	next http.Handler

	mu     sync.RWMutex // guards what follows; held for reading by each handler
	closed bool
}

// ServeHTTP lets a request through until the gate is shut.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		panic(http.ErrAbortHandler) // its connection is closed already
	}
	g.next.ServeHTTP(w, r)
}

// shut waits for the handlers and lets no further one begin.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
