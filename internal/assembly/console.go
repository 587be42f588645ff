package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// ListenConfig says where a crawl is to be seen and steered: that of the package crawl, which says
// what each field means.
type ListenConfig struct {
	Addr    string
	Token   string
	Version string
	Ready   func() error
	OnStop  func()
	Log     *slog.Logger
}

// Console is where a crawl is seen and steered over HTTP. The socket is open from [Listen] on;
// requests are answered while [Console.Serve] runs.
type Console struct {
	cfg      ListenConfig
	address  console.Address
	listener net.Listener
	serving  atomic.Pointer[console.Console] // nil before Serve
}

// CheckListen reports whether [Listen] would take the address with the token.
func CheckListen(addr, token string) error {
	a, err := console.ParseAddress(addr)
	if err != nil {
		return err
	}
	return a.Check(token)
}

// Listen opens the socket of a console. Errors about the address and the token come before
// anything is opened; all others are of the socket.
func Listen(cfg ListenConfig) (*Console, error) {
	a, err := console.ParseAddress(cfg.Addr)
	if err != nil {
		return nil, err
	}
	if err := a.Check(cfg.Token); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Console{cfg: cfg}
	if l.listener, l.address, err = a.Listen(); err != nil {
		return nil, err
	}
	return l, nil
}

// URL is where it is to be found from this computer, with a slash at the end.
func (l *Console) URL() string { return l.address.URL() }

// Event passes an event on to those who listen. It never waits.
func (l *Console) Event(e ratelimit.Event) {
	if c := l.serving.Load(); c != nil {
		c.Event(e)
	}
}

// Handler answers requests about a crawl.
func (l *Console) Handler(c *Crawler) (*console.Console, error) {
	c.meter.Start()
	return console.New(console.Config{
		Address: l.address, Token: l.cfg.Token, Version: l.cfg.Version, Clock: c.clk, Log: l.cfg.Log,
	}, l.shown(c))
}

// Serve answers requests about a crawl until ctx ends, and closes the socket. It returns within two
// seconds of that and leaves nothing running. It may be called once.
func (l *Console) Serve(ctx context.Context, c *Crawler) error {
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

// shown is the crawl as a console wants it.
func (l *Console) shown(c *Crawler) console.Crawl {
	s := shown{c}
	all := console.Crawl{
		Snapshot: c.Snapshot, Host: s.host, EachHost: s.eachHost, Recent: c.pipe.Recent,
		Paused: c.pipe.Paused, Pause: c.pipe.Pause, Resume: c.pipe.Unpause, AddSeed: s.addSeed,
		Block: c.Block, Unblock: c.Unblock, SetCeiling: c.SetCeiling, SetScope: c.SetScope, Controls: c.controls,
		Collectors: append(c.meter.Collectors(), c.tracer.Collectors()...),
		Stop: func() {
			c.Stop()
			if l.cfg.OnStop != nil {
				l.cfg.OnStop()
			}
		},
		Ready: func() error {
			if err := s.ready(); err != nil || l.cfg.Ready == nil {
				return err
			}
			return l.cfg.Ready()
		},
	}
	if c.state != nil {
		all.Checkpoint, all.Kept = c.Checkpoint, s.kept
	}
	if c.fleet != nil {
		all.Fleet = c.fleet.figures
	}
	return all
}

// shown is what a console asks a crawl for.
type shown struct{ *Crawler }

// addSeed adds a seed for a client of the console, who may be anybody that has got the token,
// or a program that reads what pages say: it allows no private address. It returns the URL as
// the crawl spells it. One that is excluded is refused, as somebody waits for the answer.
func (c shown) addSeed(url string) (string, error) {
	u, err := parseSeed(url)
	if err != nil {
		return "", err
	}
	if v := c.scope.Recheck(u, true); !v.In {
		return "", fmt.Errorf("%s is %s", u, v.Reason())
	}
	c.named.trust(u)
	return u.String(), whileRunning(c.pipe.AddSeed(u), nil)
}

// kept is the figures of the state.
func (c shown) kept() console.Kept {
	store := c.state.store
	counts := store.Counts()
	k := console.Kept{Queued: counts.Queued, Done: counts.Done, Failed: store.Err() != nil}
	k.Pending, k.Limit = store.Pending()
	k.IndexMemory, k.IndexDisk = store.SeenBytes()
	return k
}

// eachHost is the hosts in memory with what the limiter knows of them in short.
func (c shown) eachHost(see func(frontier.HostState, ratelimit.Brief)) {
	c.pipe.EachHost(func(h frontier.HostState) bool {
		b, _ := c.limiter.Brief(h.Host)
		see(h, b)
		return true
	})
}

// host is what is known of one host.
func (c shown) host(name string) console.Host {
	h := console.Host{Host: ratelimit.Domain(name)}
	if f, ok := c.pipe.Host(h.Host); ok {
		h.Frontier = &f
	}
	if d, ok := c.limiter.Inspect(h.Host); ok || d.OperatorRPS > 0 {
		h.Limiter = &d
	}
	return h
}

// ready reports why the crawl cannot do its work, as far as that is not the hosts' fault.
func (c shown) ready() error {
	if !c.began.Load() {
		return errors.New("the crawl has not begun")
	}
	select {
	case <-c.pipe.Halted():
		end, reason := c.pipe.End()
		if end == pipeline.EndNone {
			return errors.New("the crawl is ending")
		}
		return fmt.Errorf("the crawl is over or ending: %s: %s", end, reason)
	default:
	}
	if s := c.state; s != nil {
		return stateError(s.dir, s.store.Err())
	}
	return nil
}
