package testsite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/treadlight/crawl/internal/clock"
)

// Site is a set of hosts. Its methods are safe for concurrent use.
type Site struct {
	cfg     Config // with defaults; never changes after New
	clk     clock.Clock
	epoch   time.Time
	hosts   []*host
	buffers sync.Pool    // of *[]byte, the pages being sent
	port    atomic.Int32 // zero until it is known
	stop    chan struct{}

	mu        sync.Mutex // guards what follows
	listeners []net.Listener
	ran       bool
}

// New makes the site that cfg describes and starts its clock: outages and windows count from here. It opens no
// listeners. An error names the field and what to write instead.
func New(cfg Config) (*Site, error) {
	err := cfg.validate()
	if err != nil {
		return nil, err
	}
	cfg.Base = cmp.Or(cfg.Base, defaultBase)
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	cfg.Clock = cmp.Or(cfg.Clock, clock.System())
	if cfg.Listen == nil {
		cfg.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	s := &Site{cfg: cfg, clk: cfg.Clock, stop: make(chan struct{})}
	s.port.Store(int32(cfg.Port))
	s.buffers.New = func() any { return new([]byte) }
	addr := netip.MustParseAddr(cfg.Base) // validate has parsed it
	s.epoch = s.clk.Now()
	for i, p := range expand(cfg.Hosts) {
		if i > 0 && p.port == 0 {
			addr = addr.Next()
		}
		h := newHost(s, i, p, addr)
		if p.port > 0 {
			h.gate = s.hosts[i-1].gate
		} else if h.gate, err = newGate(s, p.Host, h.seed); err != nil {
			return nil, fmt.Errorf("host %s: %w", p.Name, err)
		}
		s.hosts = append(s.hosts, h)
	}
	return s, nil
}

func (s *Site) now() clock.Instant { return clock.Instant(s.clk.Since(s.epoch)) }

// Hosts returns the number of hosts; they are numbered from 0.
func (s *Site) Hosts() int { return len(s.hosts) }

// Handler returns the handler of one host, for use without a listener. It panics if there is no such host.
func (s *Site) Handler(host int) http.Handler { return s.hosts[host] }

// URL returns the origin of one host, without a port until Listen has found one. It panics if there is no such host.
func (s *Site) URL(host int) string {
	h := s.hosts[host]
	origin := "http://" + h.addr.String()
	if port := s.portOf(h); port != 0 && port != 80 {
		origin += ":" + strconv.Itoa(port)
	}
	return origin
}

func (s *Site) portOf(h *host) int {
	port := int(s.port.Load())
	if port == 0 {
		return 0
	}
	return port + h.port
}

// URLs returns the home pages of all hosts, in order. They are final once Listen has found the port.
func (s *Site) URLs() []string {
	urls := make([]string, len(s.hosts))
	for i := range s.hosts {
		urls[i] = s.URL(i) + "/"
	}
	return urls
}

// portTries is how many ports are tried if any port will do. A port that is free on the first address is mostly free on
// the others too.
const portTries = 8

// Listen opens the listeners and makes URLs final. A site that listens must be Run, which closes the listeners. A
// second call does nothing.
func (s *Site) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners != nil || s.ran {
		return nil
	}
	var err error
	for range portTries {
		if err = s.listenLocked(s.cfg.Port); err == nil || s.cfg.Port != 0 {
			break
		}
	}
	return err
}

// listenLocked opens all listeners on one port, that of the first listener if port is 0. Further hosts at the same
// address use the ports above it.
func (s *Site) listenLocked(port int) error {
	var open []net.Listener
	for _, h := range s.hosts {
		ln, err := s.cfg.Listen(net.JoinHostPort(h.addr.String(), strconv.Itoa(port+h.port)))
		if err != nil {
			for _, ln := range open {
				_ = ln.Close() // nothing was accepted yet
			}
			return fmt.Errorf("listen for host %d of %d: %w (some systems answer on 127.0.0.1 alone: "+
				"use one host with base 127.0.0.1, or give lo0 the other addresses)", h.index+1, len(s.hosts), err)
		}
		open = append(open, ln)
		port = cmp.Or(port, portOf(ln))
	}
	s.listeners = open
	s.port.Store(int32(port))
	return nil
}

func portOf(ln net.Listener) int {
	addr, err := netip.ParseAddrPort(ln.Addr().String())
	if err != nil {
		return 0 // without ports, URLs have none either
	}
	return int(addr.Port())
}

// Run serves all hosts until ctx ends. It calls Listen first if that was not done. Then it closes the listeners, lets
// responses under way finish for up to a second, ends hung requests at once, and returns nil with nothing left running.
// An error means that a host could not listen or accept; it ends the other hosts too. A site runs once.
func (s *Site) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.mu.Lock()
	listeners, ran := s.listeners, s.ran
	s.listeners, s.ran = nil, true
	s.mu.Unlock()
	if ran {
		return errors.New("the site has run already; make another with New")
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		close(s.stop)
		return nil
	})
	for i, h := range s.hosts {
		g.Go(func() error { return h.run(ctx, listeners[i]) })
	}
	return g.Wait()
}

// run serves one host, without a listener during some outages. It fails if another program takes the address meanwhile,
// since the crawler would then talk to that program.
func (h *host) run(ctx context.Context, ln net.Listener) error {
	address := ln.Addr().String()
	for _, o := range h.cfg.Outages {
		if o.Mode != modeClose {
			continue
		}
		if err := h.serveUntil(ctx, ln, o.begin()); err != nil || ctx.Err() != nil {
			return err
		}
		if clock.Sleep(ctx, h.site.clk, o.end().Sub(h.site.now())) != nil {
			return nil // ctx has ended, as it ends Run
		}
		var err error
		if ln, err = h.site.cfg.Listen(address); err != nil {
			return fmt.Errorf("listen again after an outage: %w", err)
		}
	}
	return h.serveUntil(ctx, ln, never)
}

const never clock.Instant = 1<<63 - 1

const (
	drain         = time.Second      // how long responses under way may take when the site ends
	headerTimeout = 30 * time.Second // how long a client may take to send a request header
)

// serveUntil serves ln until ctx ends, and then shuts down gracefully, or until down, and then stops abruptly. When it
// returns, all connections are closed and their goroutines have ended.
func (h *host) serveUntil(ctx context.Context, ln net.Listener, down clock.Instant) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var conns sync.WaitGroup
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return work },
		ConnState:         countConns(&conns),
		// Clients that close connections are part of the tests.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	var broken error
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			broken = fmt.Errorf("accept on %s: %w", ln.Addr(), err)
		}
	}()
	timer := h.site.clk.NewTimer(down.Sub(h.site.now()))
	defer timer.Stop()
	select {
	case <-served:
	case <-timer.C():
	case <-ctx.Done():
		ctx, cancel := context.WithTimeout(work, drain)
		defer cancel()
		_ = srv.Shutdown(ctx) // its only error is the timeout
	}
	cancel()
	_ = srv.Close() // closes what is still open
	<-served
	conns.Wait()
	return broken
}

// countConns counts the connections in conns. The server reports a new connection before it starts its goroutine, so a
// wait after Serve has returned misses none.
func countConns(conns *sync.WaitGroup) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			conns.Add(1)
		case http.StateHijacked, http.StateClosed:
			conns.Done()
		}
	}
}
