package assembly

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/web/canonical"
)

const (
	// maxLookups is how many names of seeds are looked up at a time.
	maxLookups = 64
	// lookupTime is how long seeds wait for where their names lead: most servers answer within a tenth of it. Names
	// that are not known by then are decided at the first connection.
	lookupTime = 2 * time.Second
	// maxWithheld is after how many hosts nobody reads on.
	maxWithheld = 20
	// maxClosed bounds the names of which a fleet notes that they allow nothing.
	maxClosed = 10_000
	// anyPort stands for all ports where a name is kept that allows nothing at any.
	anyPort = 0
	// noAddresses is kept of a host that allows none.
	noAddresses = "-"
)

// named is what the user named by seeds: the hosts that may get credentials, and the private addresses that may be
// connected to. It is as large as the list of seeds.
type named struct {
	client    *fetch.Client
	fleet     Fleet // that shares the addresses; nil: this process is alone
	log       *slog.Logger
	addresses reach.Openings
	only      func(host string) bool // of seeds that the user named; nil: all are
	closed    atomic.Int64           // names of seeds that allow nothing, which a fleet was told
	lookups   errgroup.Group         // of seeds that came while the crawl ran

	mu       sync.Mutex      // guards what follows
	hosts    map[string]bool // may get credentials: over TLS, and in the clear if the value is true
	withheld map[string]bool // hosts that credentials were kept from; at most maxWithheld
}

type seedHost struct {
	name   string
	port   uint16
	secure bool
}

func seedHostOf(u canonical.URL) seedHost {
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

// add notes that the user named seeds: their hosts may get credentials, and may have private addresses. It waits until
// it is known where their names lead.
func (n *named) add(ctx context.Context, seeds ...canonical.URL) {
	var hosts []seedHost
	for _, u := range seeds {
		if n.only == nil || n.only(u.Host()) {
			n.trust(u)
			hosts = append(hosts, seedHostOf(u))
		}
	}
	n.lookUp(ctx, hosts)
}

// addLate adds a seed that comes while the crawl runs. Where its name leads is found out beside, unless so many are
// being looked up that the first connection will be earlier.
func (n *named) addLate(ctx context.Context, u canonical.URL) {
	if n.only != nil && !n.only(u.Host()) {
		return
	}
	n.trust(u)
	if h := seedHostOf(u); n.addresses.Name(h.name, h.port) {
		n.lookups.TryGo(func() error { return n.settle(ctx, h) })
	}
}

// lookUp allows the private addresses of hosts that the user named.
func (n *named) lookUp(ctx context.Context, hosts []seedHost) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(maxLookups)
	for _, h := range hosts {
		switch await := n.addresses.Name(h.name, h.port); {
		case await:
			g.Go(func() error { return n.settle(ctx, h) })
		case n.fleet != nil:
			g.Go(func() error { n.share(ctx, h.name, h.port); return nil })
		}
	}
	_ = g.Wait() // there is no error
}

// settle finds out where the name of a seed leads. In a fleet it leads to where the first process that had such a seed
// has found it to.
func (n *named) settle(ctx context.Context, h seedHost) error {
	if n.fleet != nil {
		if n.opening(ctx, h.name, anyPort) == noAddresses {
			n.addresses.Close(h.name)
			return nil
		}
		if addrs := n.askFleet(ctx, h.name, h.port); len(addrs) > 0 {
			n.addresses.Restore(h.name, h.port, addrs)
			return nil
		}
	}
	n.client.Settle(ctx, h.name, h.port, h.secure)
	n.share(ctx, h.name, h.port)
	return nil
}

// share tells the other processes of a fleet which addresses a host that the user named allows, if that is decided. It
// holds as long as the job is there.
func (n *named) share(ctx context.Context, host string, port uint16) {
	if n.fleet == nil {
		return
	}
	addrs, known := n.addresses.Opened(host, port)
	if !known {
		return
	}
	hosts := map[string]string{host: joinAddresses(addrs)}
	for _, a := range addrs { // that the user named with it
		hosts[a.String()] = a.String()
	}
	if len(addrs) == 0 {
		if n.closed.Add(1) > maxClosed {
			return
		}
		port = anyPort
	}
	for name, text := range hosts {
		if err := n.fleet.SetOpening(ctx, hostPort(name, port), text); err != nil {
			n.log.Warn("other processes may refuse the private addresses of a seed",
				slog.String("host", host), slog.Any("error", err))
			return
		}
	}
}

// shareLate shares what was decided at the first connection.
func (n *named) shareLate(host string, port uint16, addrs []netip.Addr) {
	if len(addrs) > 0 {
		n.lookups.TryGo(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
			defer cancel()
			n.share(ctx, host, port)
			return nil
		})
	}
}

// askFleet is the addresses that a host allows at a port for another process of the fleet. What cannot be had or read
// allows nothing.
func (n *named) askFleet(ctx context.Context, host string, port uint16) []netip.Addr {
	addrs, _ := parseAddresses(n.opening(ctx, host, port)) // none with an error
	return addrs
}

// opening is what the job has of a host and a port that users named; empty for nothing.
func (n *named) opening(ctx context.Context, host string, port uint16) string {
	text, err := n.fleet.Opening(ctx, hostPort(host, port))
	if err != nil {
		n.log.Warn("private addresses of a seed may be refused", slog.String("host", host), slog.Any("error", err))
	}
	return text
}

// hostPort, joinAddresses and parseAddresses are how allowed addresses are kept.
func hostPort(host string, port uint16) string { return host + " " + strconv.Itoa(int(port)) }

func joinAddresses(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	return cmp.Or(strings.Join(texts, " "), noAddresses)
}

func parseAddresses(text string) (addrs []netip.Addr, err error) {
	for item := range strings.FieldsSeq(strings.TrimPrefix(text, noAddresses)) {
		a, err := netip.ParseAddr(item)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

// keepAddresses keeps what the host of a seed allows at a port: see [reach.Openings].
func (s *State) keepAddresses(host string, port uint16, addrs []netip.Addr) {
	key, text := metaAddresses+hostPort(host, port), joinAddresses(addrs)
	if s.store.Meta(key) != text { // of many seeds of a host the first has said it
		s.store.SetMeta(key, text)
	}
}

// restore brings back what the seeds of earlier runs have allowed, or that they allow nothing. In a new round their
// hosts are looked up anew, wherever they led before.
func (n *named) restore(ctx context.Context, s *State) error {
	var anew []seedHost
	for key, text := range s.store.MetaBelow(metaAddresses) {
		host, portText, _ := strings.Cut(key, " ")
		port, err := strconv.ParseUint(portText, 10, 16)
		if err != nil {
			return stateError(s.dir, err)
		}
		h := seedHost{host, uint16(port), port == 443}
		if s.newRound {
			s.keepAddresses(h.name, h.port, nil)
			anew = append(anew, h)
			continue
		}
		addrs, err := parseAddresses(text)
		if err != nil {
			return stateError(s.dir, err)
		}
		n.addresses.Restore(h.name, h.port, addrs)
	}
	n.lookUp(ctx, anew)
	return nil
}

// trust lets the host of a seed have credentials, in the clear if the seed is.
func (n *named) trust(u canonical.URL) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[u.Host()] = n.hosts[u.Host()] || u.Scheme() == "http"
}

// trusts is fetch.Config.Trusted.
func (n *named) trusts(authority string, secure bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear, ok := n.hosts[authority]
	return ok && (secure || clear)
}

// logWithheld tells once of a host that it gets no credentials.
func (n *named) logWithheld(log *slog.Logger) func(string) {
	return func(authority string) {
		n.mu.Lock()
		first := !n.withheld[authority] && len(n.withheld) < maxWithheld
		if first {
			n.withheld[authority] = true
		}
		n.mu.Unlock()
		if first {
			log.Warn("credentials are not sent in the clear: name the host as a seed with http:// if it is to get them",
				slog.String("host", authority))
		}
	}
}

// readmit lets in what a seed of an earlier run let in. Credentials are for the hosts of those that were given, not of
// those they redirected to. No addresses are allowed but those that were then: the other seeds were public, or did not
// come from the user.
func readmit(c *Crawler, u canonical.URL, given bool) {
	c.named.addresses.Shut(u.Hostname())
	if given {
		c.named.trust(u)
	}
	c.scope.AddSeed(u)
}
