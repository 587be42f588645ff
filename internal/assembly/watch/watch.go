// Package watch shows a crawl to people and programs: a console over HTTP, and the metrics of the crawl. It registers
// itself with package assembly when it is imported.
package watch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console"
	"github.com/treadlight/crawl/internal/observe/endpoint"
	"github.com/treadlight/crawl/internal/observe/telemetry"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func init() {
	assembly.Watching.Register(assembly.Watch{
		Meter: func() assembly.Meter { return telemetry.New() },
		Listen: func(cfg assembly.ListenConfig) (assembly.Console, error) {
			l, err := Listen(cfg)
			if err != nil { // a nil *Console would make the interface non-nil
				return nil, err
			}
			return l, nil
		},
	})
}

// Console shows a crawl over HTTP and lets it be controlled. The socket is open from [Listen] on; requests are answered
// while [Console.Serve] runs.
type Console struct {
	cfg      assembly.ListenConfig
	address  endpoint.Address
	listener net.Listener
	serving  atomic.Pointer[console.Console] // nil before Serve
}

func checkedAddress(addr, token string) (endpoint.Address, error) {
	a, err := endpoint.ParseAddress(addr)
	if err == nil {
		err = a.Check(token)
	}
	return a, err
}

// Listen opens the socket of a console. The address and the token are checked before anything is opened.
func Listen(cfg assembly.ListenConfig) (*Console, error) {
	a, err := checkedAddress(cfg.Addr, cfg.Token)
	if err != nil {
		return nil, err
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	l := &Console{cfg: cfg}
	if l.listener, l.address, err = a.Listen(); err != nil {
		return nil, err
	}
	return l, nil
}

// URL returns the console's URL as seen from this computer, with a slash at the end.
func (l *Console) URL() string { return l.address.URL() }

// Event passes an event on to the clients that listen. It never blocks.
func (l *Console) Event(e ratelimit.Event) {
	if c := l.serving.Load(); c != nil {
		c.Event(e)
	}
}

// Handler returns the handler of requests about a crawl.
func (l *Console) Handler(c *assembly.Crawler) (*console.Console, error) {
	p := c.Parts()
	p.Meter.Start()
	return console.New(console.Config{
		Address: l.address, Token: l.cfg.Token, Version: l.cfg.Version, Clock: p.Clock, Log: l.cfg.Log,
	}, l.shown(c, &p))
}

// Serve answers requests about a crawl until ctx ends, and closes the socket. It returns within two seconds after that
// and leaves nothing running. It may be called once.
func (l *Console) Serve(ctx context.Context, c *assembly.Crawler) error {
	inner, err := l.Handler(c)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	l.serving.Store(inner)
	l.cfg.Log.Info("the crawl can be seen and steered", slog.String("url", l.URL()), slog.Bool("token", l.cfg.Token != ""))
	return inner.Serve(ctx, l.listener)
}

// Close closes the socket of a console that was not served.
func (l *Console) Close() error { return l.listener.Close() }

// shown returns the crawl as a console needs it.
func (l *Console) shown(c *assembly.Crawler, p *assembly.Parts) console.Crawl {
	pipe := p.Pipeline
	all := console.Crawl{
		Snapshot: c.Snapshot, Recent: pipe.Recent,
		Host:   func(name string) console.Host { return host(p, name) },
		Paused: pipe.Paused, Pause: pipe.Pause, Resume: pipe.Unpause, AddSeed: c.AddForeignSeed,
		Block: c.Block, Unblock: c.Unblock, SetCeiling: c.SetCeiling, SetScope: c.SetScope,
		Controls:   c.Controls,
		Collectors: slices.Concat(collectors(p.Meter), collectors(p.Tracer)),
		EachHost: func(see func(frontier.HostState, ratelimit.Brief)) {
			pipe.EachHost(func(h frontier.HostState) bool {
				b, _ := p.Limiter.Brief(h.Host)
				see(h, b)
				return true
			})
		},
		Stop: func() {
			c.Stop()
			if l.cfg.OnStop != nil {
				l.cfg.OnStop()
			}
		},
		Ready: func() error {
			if err := c.Ready(); err != nil || l.cfg.Ready == nil {
				return err
			}
			return l.cfg.Ready()
		},
	}
	if p.State != nil {
		all.Checkpoint, all.Kept = c.Checkpoint, p.State.Figures
	}
	if p.Fleet != nil {
		all.Fleet = p.Fleet.Figures // makes no request to Redis
	}
	return all
}

// collectors returns the Prometheus collectors of a meter or tracer; nil if it has none.
func collectors(of any) []prometheus.Collector {
	if m, ok := of.(interface{ Collectors() []prometheus.Collector }); ok {
		return m.Collectors()
	}
	return nil
}

func host(p *assembly.Parts, name string) console.Host {
	h := console.Host{Host: ratelimit.Domain(name)}
	if f, ok := p.Pipeline.Host(h.Host); ok {
		h.Frontier = &f
	}
	if d, ok := p.Limiter.Inspect(h.Host); ok || d.OperatorRPS > 0 {
		h.Limiter = &d
	}
	return h
}
