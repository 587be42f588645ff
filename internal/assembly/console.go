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

// ErrNotRunning is the error of what can be done to a crawl only while it runs.
var ErrNotRunning = console.ErrGone

// Pause has nothing further asked for until [Crawler.Resume]. What is under way is
// finished, and MaxTime runs on. It may be called at any time, but not by a hook; the
// error is [ErrNotRunning] before the crawl and once it ends.
func (c *Crawler) Pause() error { return running(c.pipe.Pause()) }

// Resume has a paused crawl go on; of any other it does nothing. See [Crawler.Pause].
func (c *Crawler) Resume() error { return running(c.pipe.Unpause()) }

// Paused reports whether Pause was called last, and not Resume.
func (c *Crawler) Paused() bool { return c.pipe.Paused() }

// AddSeed adds a URL to a crawl that runs, as if it had been given to [Crawler.Run]: its
// area belongs to the scope, and its host may have a private address, so that the program is
// not to pass on what comes from elsewhere. One that is known changes nothing. The error is an
// [ErrSeed], or [ErrNotRunning]; see [Crawler.Pause].
func (c *Crawler) AddSeed(url string) error {
	u, err := parseSeed(url)
	if err != nil {
		return err
	}
	c.name(context.Background(), u)
	return running(c.pipe.AddSeed(u))
}

// addSeed adds a seed for a client of the console, who may be anybody that has got the token,
// or a program that reads what pages say: it opens no private address. It returns the URL as
// the crawl spells it. One that is excluded is refused, as somebody waits for the answer.
func (c *Crawler) addSeed(url string) (string, error) {
	u, err := parseSeed(url)
	if err != nil {
		return "", err
	}
	if v := c.scope.Recheck(u, true); !v.In {
		return "", fmt.Errorf("%s is %s", u, v.Reason())
	}
	c.trust.name(u)
	return u.String(), running(c.pipe.AddSeed(u))
}

func running(there bool) error {
	if !there {
		return ErrNotRunning
	}
	return nil
}

// ListenConfig says where a crawl is to be seen and steered. Addr is required.
type ListenConfig struct {
	// Addr is an IP address or "localhost" with a port, or a port alone, which is one of the
	// loopback address. Port 0 is any that is free.
	Addr string
	// Token is a secret of 16 bytes or more that clients bring as a bearer token. Empty means
	// none, which is refused where other computers can reach Addr.
	Token string
	// Version is told by the metrics. Empty leaves it out.
	Version string
	// Ready, if set, has /readyz fail with the error it returns; a program that has a
	// registry of circuits asks it here. It is called for every such request. Nil: only the
	// crawl counts.
	Ready func() error
	// OnStop, if set, is called when a client has stopped the crawl, for what feeds it to end
	// too. Nil: nothing does.
	OnStop func()
	// Log is told of every order and every refusal. Nil means nobody is.
	Log *slog.Logger
}

// Console is where a crawl is seen and steered over HTTP: health, state, events, metrics
// and orders, as the manual lists them. The socket is open from [Listen] on; requests are
// answered while [Console.Serve] runs.
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
// anything is opened; all others are of the socket. Give [Console.Event] to the crawl as
// [Config.OnEvent], and call Serve beside its Run, or Close.
func Listen(cfg ListenConfig) (*Console, error) {
	if err := CheckListen(cfg.Addr, cfg.Token); err != nil {
		return nil, err
	}
	a, err := console.ParseAddress(cfg.Addr)
	if err != nil {
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
func (l *Console) Event(e Event) {
	if c := l.serving.Load(); c != nil {
		c.Event(e)
	}
}

// Handler answers requests about a crawl.
func (l *Console) Handler(c *Crawler) (*console.Console, error) {
	c.meter.Start()
	return console.New(console.Config{
		Address: l.address, Token: l.cfg.Token, Version: l.cfg.Version, Clock: c.clk, Log: l.cfg.Log,
	}, l.over(c))
}

// Serve answers requests about a crawl until ctx ends, which should be once [Crawler.Run]
// has returned, and closes the socket. It returns within two seconds of that and leaves
// nothing running. The error is that of the socket. It may be called once.
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

// over is the crawl as a console wants it.
func (l *Console) over(c *Crawler) console.Crawl {
	steer := console.Crawl{
		Snapshot: c.Snapshot, Host: c.host, Paused: c.pipe.Paused,
		Pause: c.pipe.Pause, Resume: c.pipe.Unpause, AddSeed: c.addSeed,
		Block: c.Block, Unblock: c.Unblock, SetCeiling: c.SetCeiling, SetScope: c.SetScope, Controls: c.controls,
		Stop: func() {
			c.Stop()
			if l.cfg.OnStop != nil {
				l.cfg.OnStop()
			}
		},
		Ready: func() error {
			if err := c.ready(); err != nil || l.cfg.Ready == nil {
				return err
			}
			return l.cfg.Ready()
		},
	}
	if c.state != nil {
		steer.Checkpoint, steer.Kept = c.Checkpoint, c.kept
	}
	if c.fleet != nil {
		steer.Fleet = c.fleet.figures
	}
	steer.Collectors = append(c.meter.Collectors(), c.tracer.Collectors()...)
	steer.EachHost, steer.Recent = c.eachHost, c.pipe.Recent
	return steer
}

// kept is the figures of the state.
func (c *Crawler) kept() console.Kept {
	store := c.state.store
	counts := store.Counts()
	k := console.Kept{Queued: counts.Queued, Done: counts.Done, Failed: store.Err() != nil}
	k.Pending, k.Limit = store.Pending()
	k.IndexMemory, k.IndexDisk = store.SeenBytes()
	return k
}

// eachHost is the hosts in memory with what the limiter knows of them in short.
func (c *Crawler) eachHost(see func(frontier.HostState, ratelimit.Brief)) {
	c.pipe.EachHost(func(h frontier.HostState) bool {
		b, _ := c.limiter.Brief(h.Host)
		see(h, b)
		return true
	})
}

// host is what is known of one host.
func (c *Crawler) host(name string) console.Host {
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
func (c *Crawler) ready() error {
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
	if c.state != nil {
		if err := c.state.store.Err(); err != nil {
			return stateError(c.state.dir, err)
		}
	}
	return nil
}
