package crawl

import (
	"context"
	"log/slog"

	"github.com/treadlight/crawl/internal/assembly"
)

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
type Console struct{ inner *assembly.Console }

// CheckListen reports whether [Listen] would take the address with the token.
func CheckListen(addr, token string) error { return assembly.CheckListen(addr, token) }

// Listen opens the socket of a console. Errors about the address and the token come before
// anything is opened; all others are of the socket. Give [Console.Event] to the crawl as
// [Config.OnEvent], and call Serve beside its Run, or Close.
func Listen(cfg ListenConfig) (*Console, error) {
	inner, err := assembly.Listen(assembly.ListenConfig(cfg))
	if err != nil {
		return nil, err
	}
	return &Console{inner}, nil
}

// URL is where it is to be found from this computer, with a slash at the end.
func (l *Console) URL() string { return l.inner.URL() }

// Event passes an event on to those who listen. It never waits.
func (l *Console) Event(e Event) { l.inner.Event(e) }

// Serve answers requests about a crawl until ctx ends, which should be once [Crawler.Run]
// has returned, and closes the socket. It returns within two seconds of that and leaves
// nothing running. The error is that of the socket. It may be called once.
func (l *Console) Serve(ctx context.Context, c *Crawler) error { return l.inner.Serve(ctx, c.inner) }

// Close closes the socket of a console that was not served.
func (l *Console) Close() error { return l.inner.Close() }
