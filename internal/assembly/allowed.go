package assembly

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/treadlight/crawl/internal/web/canonical"
)

const (
	// lookups is how many names of seeds are looked up at a time.
	lookups = 64
	// lookupTime is how long seeds wait for where their names lead: most servers answer within
	// a tenth of it. Names that are not known by then are decided at the first connection.
	lookupTime = 2 * time.Second
	// mostClosed bounds the names of which a fleet notes that they open nothing.
	mostClosed = 10_000
)

// seedHost is what a seed opens.
type seedHost struct {
	name   string
	port   uint16
	secure bool
}

func hostOf(u canonical.URL) seedHost {
	h := seedHost{u.Hostname(), 80, u.Scheme() == "https"}
	if h.secure {
		h.port = 443
	}
	if _, text, ok := strings.Cut(u.Host()[strings.IndexByte(u.Host(), ']')+1:], ":"); ok {
		n, _ := strconv.ParseUint(text, 10, 16) // a URL has no other ports
		h.port = uint16(n)
	}
	return h
}

// settle finds out where the name of a seed leads. In a fleet it leads to where the first process
// that had such a seed has found it to.
func (c *Crawler) settle(ctx context.Context, h seedHost) error {
	if c.fleet != nil {
		if c.fleet.opening(ctx, h.name, anyPort) == opensNone {
			c.openings.Close(h.name)
			return nil
		}
		if addrs := c.askFleet(ctx, h.name, h.port); len(addrs) > 0 {
			c.openings.Restore(h.name, h.port, addrs)
			return nil
		}
	}
	c.client.Settle(ctx, h.name, h.port, h.secure)
	c.shareOpening(ctx, h.name, h.port)
	return nil
}

// name notes that the user named seeds: their hosts may get credentials, and may have private
// addresses. It waits until it is known where their names lead.
func (c *Crawler) name(ctx context.Context, seeds ...canonical.URL) {
	hosts := make([]seedHost, len(seeds))
	for i, u := range seeds {
		c.trust.name(u)
		hosts[i] = hostOf(u)
	}
	c.open(ctx, hosts)
}

// open opens the private addresses of hosts that the user named.
func (c *Crawler) open(ctx context.Context, hosts []seedHost) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(lookups)
	for _, h := range hosts {
		switch await := c.openings.Name(h.name, h.port); {
		case await:
			g.Go(func() error { return c.settle(ctx, h) })
		case c.fleet != nil:
			g.Go(func() error { c.shareOpening(ctx, h.name, h.port); return nil })
		}
	}
	_ = g.Wait() // there is no error
}

// nameLate names a seed that comes while the crawl runs. Where its name leads is found out
// beside, unless so many are being looked up that the first connection will be earlier.
func (c *Crawler) nameLate(ctx context.Context, u canonical.URL) {
	c.trust.name(u)
	if h := hostOf(u); c.openings.Name(h.name, h.port) {
		c.settling.TryGo(func() error { return c.settle(ctx, h) })
	}
}

// anyPort stands for all ports where a name is kept that opens nothing at any.
const anyPort = 0

// shareOpening tells the other processes of a fleet what a host that the user named has opened, if
// that is decided. It holds as long as the job is there.
func (c *Crawler) shareOpening(ctx context.Context, host string, port uint16) {
	if c.fleet == nil {
		return
	}
	addrs, known := c.openings.Opened(host, port)
	if !known {
		return
	}
	hosts := map[string]string{host: opening(addrs)}
	for _, a := range addrs { // that the user named with it
		hosts[a.String()] = a.String()
	}
	if len(addrs) == 0 {
		if c.closed.Add(1) > mostClosed {
			return
		}
		port = anyPort
	}
	for name, text := range hosts {
		if err := c.fleet.store.Open(ctx, name+" "+strconv.Itoa(int(port)), text); err != nil {
			c.fleet.log.Warn("other processes may refuse the private addresses of a seed", slog.String("host", host), slog.Any("error", err))
			return
		}
	}
}

// openLate shares what was decided at the first connection.
func (c *Crawler) openLate(host string, port uint16, addrs []netip.Addr) {
	if len(addrs) > 0 && c.fleet != nil {
		c.settling.TryGo(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
			defer cancel()
			c.shareOpening(ctx, host, port)
			return nil
		})
	}
}

// askFleet is what a host has opened at a port for another process of the fleet. What cannot be
// had or read opens nothing.
func (c *Crawler) askFleet(ctx context.Context, host string, port uint16) []netip.Addr {
	if c.fleet == nil {
		return nil
	}
	addrs, err := parseOpening(c.fleet.opening(ctx, host, port))
	if err != nil {
		return nil
	}
	return addrs
}

// opening is what the job has of a host and a port that users named; empty for nothing.
func (f *fleet) opening(ctx context.Context, host string, port uint16) string {
	text, err := f.store.Opening(ctx, host+" "+strconv.Itoa(int(port)))
	if err != nil {
		f.log.Warn("private addresses of a seed may be refused", slog.String("host", host), slog.Any("error", err))
	}
	return text
}

// opening is the addresses that a host has opened, as they are kept.
func opening(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	return cmp.Or(strings.Join(texts, " "), opensNone)
}

func parseOpening(text string) (addrs []netip.Addr, err error) {
	for item := range strings.FieldsSeq(strings.TrimPrefix(text, opensNone)) {
		a, err := netip.ParseAddr(item)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

// opensNone is kept of a host that has opened no addresses.
const opensNone = "-"

// opened keeps what the host of a seed has opened at a port: see [reach.Openings].
func (s *State) opened(host string, port uint16, addrs []netip.Addr) {
	key, text := metaOpening+host+" "+strconv.Itoa(int(port)), opening(addrs)
	if s.store.Meta(key) != text { // of many seeds of a host the first has said it
		s.store.SetMeta(key, text)
	}
}

// reopen brings back what the seeds of earlier runs have opened, or that they have opened
// nothing. In a new round their hosts are looked up anew, wherever they led before.
func (c *Crawler) reopen(ctx context.Context) error {
	s := c.state
	var anew []seedHost
	for key, text := range s.store.MetaBelow(metaOpening) {
		host, portText, _ := strings.Cut(key, " ")
		n, err := strconv.ParseUint(portText, 10, 16)
		if err != nil {
			return stateError(s.dir, err)
		}
		port := uint16(n)
		if s.anew {
			s.opened(host, port, nil)
			anew = append(anew, seedHost{host, port, port == 443})
			continue
		}
		addrs, err := parseOpening(text)
		if err != nil {
			return stateError(s.dir, err)
		}
		c.openings.Restore(host, port, addrs)
	}
	c.open(ctx, anew)
	return nil
}

// restore lets in what the seeds of earlier runs let in. Credentials are for the hosts of those
// that were given, not of those they redirected to. Addresses are open that were opened then:
// the other seeds were public, or did not come from the user.
func (c *Crawler) restore(ctx context.Context) error {
	if err := c.reopen(ctx); err != nil {
		return err
	}
	for it, err := range c.state.store.Seeds() {
		if err != nil {
			return stateError(c.state.dir, err)
		}
		if ctx.Err() != nil {
			break
		}
		c.readmit(it.URL, it.Hops == 0)
	}
	return nil
}

// readmit lets in what a seed of an earlier run let in.
func (c *Crawler) readmit(u canonical.URL, given bool) {
	c.openings.Shut(u.Hostname())
	if given {
		c.trust.name(u)
	}
	c.scope.AddSeed(u)
}
