package assembly

import (
	"cmp"
	"context"
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

// settle finds out where the name of a seed leads.
func (c *Crawler) settle(ctx context.Context, h seedHost) error {
	c.client.Settle(ctx, h.name, h.port, h.secure)
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
		if c.openings.Name(h.name, h.port) {
			g.Go(func() error { return c.settle(ctx, h) })
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

// opensNone is kept of a host that has opened no addresses.
const opensNone = "-"

// opened keeps what the host of a seed has opened at a port: see [reach.Openings].
func (s *State) opened(host string, port uint16, addrs []netip.Addr) {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	key, text := metaOpening+host+" "+strconv.Itoa(int(port)), cmp.Or(strings.Join(texts, " "), opensNone)
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
		var addrs []netip.Addr
		for item := range strings.FieldsSeq(strings.TrimPrefix(text, opensNone)) {
			a, err := netip.ParseAddr(item)
			if err != nil {
				return stateError(s.dir, err)
			}
			addrs = append(addrs, a)
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
