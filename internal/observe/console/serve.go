package console

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/clock/lifetime"
)

const (
	// maxConns is how many connections without a request there are at a time, and how many
	// with one, streams apart: one more closes the oldest of them, so that nobody waits for
	// those who are silent or slow. Each takes some tens of kilobytes.
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
	shutdownTime = 2 * time.Second
)

// Serve answers on l, which it closes, until ctx ends. It returns within two seconds of that, and nothing it started
// is left then. The error is that of the socket; nil if it was ctx that ended it. It may be called once.
func (c *Console) Serve(ctx context.Context, l net.Listener) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ends after ctx, with the last answer
	defer cancel()
	answering := lifetime.New() // a server that is closed does not know when the last handler has returned
	conns := newConnections()
	srv := &http.Server{
		ConnState: conns.note, ConnContext: conns.name,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !answering.Begin() {
				panic(http.ErrAbortHandler) // its connection is closed already
			}
			defer answering.Done()
			c.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		BaseContext:    func(net.Listener) context.Context { return work },
		ErrorLog:       slog.NewLogLogger(c.cfg.Log.Handler(), slog.LevelDebug), // what strangers send is no trouble of ours
	}
	looking, enough := context.WithCancel(ctx)
	var sampling sync.WaitGroup
	sampling.Go(func() { c.record(looking) })
	defer sampling.Wait()
	defer enough()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-served:
	}
	c.streams.life.Stop()
	bounded, stop := context.WithTimeout(work, shutdownTime)
	defer stop()
	if srv.Shutdown(bounded) != nil { // the time is over
		cancel()
		_ = srv.Close() // what it could say is that connections are broken
	}
	if failed == nil {
		failed = <-served
	}
	answering.End() // with work ended nothing that they wait for takes long
	if errors.Is(failed, http.ErrServerClosed) {
		return nil
	}
	return failed
}

// connections are those of a server without a request and with one, streams apart, the one that became so first in
// front. It makes room by closing that, so that none has to wait until another one ends.
type connections struct {
	mu         sync.Mutex // guards what follows
	idle, busy *simplelru.LRU[net.Conn, struct{}]
}

func newConnections() (cs *connections) {
	cs = new(connections)
	cs.idle, _ = simplelru.NewLRU[net.Conn, struct{}](2*maxConns, nil) // it refuses a size below one
	cs.busy, _ = simplelru.NewLRU[net.Conn, struct{}](2*maxConns, nil)
	return cs
}

// note is a [http.Server.ConnState].
func (cs *connections) note(c net.Conn, state http.ConnState) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.idle.Remove(c)
	cs.busy.Remove(c)
	of := cs.idle
	switch state {
	case http.StateClosed, http.StateHijacked:
		return
	case http.StateActive:
		of = cs.busy
	case http.StateNew, http.StateIdle:
	}
	if of.Add(c, struct{}{}); of.Len() > maxConns {
		oldest, _, _ := of.RemoveOldest()
		_ = oldest.Close() // its client has not said or taken anything for long
	}
}

type connKey struct{}

func (cs *connections) name(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		cs.busy.Remove(c)
	})
}

// keepStream leaves the connection of a request out: it is one of maxStreams, and ends by itself.
func keepStream(r *http.Request) {
	if keep, ok := r.Context().Value(connKey{}).(func()); ok {
		keep()
	}
}
