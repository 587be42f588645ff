package crawl

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/resolve"
	"github.com/treadlight/crawl/internal/observe/console"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/robots"
)

// NewOver is New with connections made by dial, so that a crawl fits into a bubble. The
// addresses that dial reaches are not checked.
func NewOver(cfg Config, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*Crawler, error) {
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return c, c.rebuild(dial)
}

// NewResolving is New with names looked up by lookup, each time that one is connected to.
func NewResolving(cfg Config, lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) (*Crawler, error) {
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if c.id.resolver, err = resolve.New(resolve.Config{TTL: -1, Lookup: lookup}); err != nil {
		return nil, err
	}
	return c, c.rebuild(nil)
}

// rebuild has the crawl connect in another way.
func (c *Crawler) rebuild(dial func(ctx context.Context, network, addr string) (net.Conn, error)) (err error) {
	cfg, fc := &c.cfg, c.fetchConfig()
	fc.DialContext = dial
	if c.client, err = fetch.New(fc); err != nil {
		return err
	}
	pc, err := c.pipelineConfig()
	if err != nil {
		return err
	}
	if cfg.Robots.Enabled {
		if pc.Robots, err = robots.New(robots.Config{Agent: config.Product}); err != nil {
			return err
		}
	}
	c.pipe, err = pipeline.New(pc)
	return err
}

// HearSeed is what another process of a fleet has the crawl hear.
func (c *Crawler) HearSeed(url string) { c.hearSeed(url, 0) }

// Allows is whether the crawl may connect to an address for a host.
func (c *Crawler) Allows(host string, at netip.AddrPort) bool {
	return c.openings.Allows(host, at, false)
}

// Chained reports whether a crawl has anything around requests for pages, and around those
// for robots.txt beside that.
func Chained(cfg Config) (page, robots bool, err error) {
	c, err := New(cfg)
	if err != nil {
		return false, false, err
	}
	fc := c.fetchConfig()
	return fc.Chain != nil, fc.Repeating != nil, nil
}

// Metrics is what the console of a crawl shows at /metrics, without its socket, so that it fits
// into a bubble.
func Metrics(c *Crawler) (http.Handler, error) {
	a, err := console.ParseAddress("8080")
	if err != nil {
		return nil, err
	}
	c.meter.Start()
	return console.New(console.Config{Address: a, Clock: c.clk, Log: slog.New(slog.DiscardHandler)}, new(Console).over(c))
}
