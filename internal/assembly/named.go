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
	// maxLookups is how many host names of seeds are looked up at a time.
	maxLookups = 64
	// lookupTime is how long seeds wait for the addresses of their hosts: most servers answer within a tenth of it.
	// Hosts whose addresses are not known by then are decided at the first connection.
	lookupTime = 2 * time.Second
	// maxWithheld is how many hosts are logged whose credentials were withheld; nobody reads more.
	maxWithheld = 20
	// maxClosed bounds how many host names that allow no address this process stores in its fleet.
	maxClosed = 10_000
	// anyPort stands for all ports when a host name is stored that allows no address at any port.
	anyPort = 0
	// noAddresses is stored for a host that allows no address.
	noAddresses = "-"
)

// named is what the user named by seeds: the hosts that may get credentials, and the private addresses to which
// connections are allowed. It grows with the list of seeds.
type named struct {
	client    *fetch.Client
	fleet     Fleet // shares the addresses with other processes; nil means that this process is alone
	log       *slog.Logger
	addresses reach.Openings
	only      func(host string) bool // reports whether the user named the host of a seed; nil means always
	closed    atomic.Int64           // names stored in the fleet that allow no address
	lookups   errgroup.Group         // lookups for seeds that came while the crawl runs

	mu       sync.Mutex      // guards what follows
	hosts    map[string]bool // hosts that may get credentials: over TLS, and also in the clear if the value is true
	withheld map[string]bool // hosts that credentials were withheld from; at most maxWithheld
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
		n, _ := strconv.ParseUint(text, 10, 16) // a canonical URL has no other ports
		h.port = uint16(n)
	}
	return h
}

// add records that the user named seeds: their hosts may get credentials, and may have private addresses. It waits
// until their addresses are known, or lookupTime has passed.
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

// addLate adds a seed that comes while the crawl runs. Its addresses are looked up in the background, unless so many
// lookups are running that the first connection will come earlier.
func (n *named) addLate(ctx context.Context, u canonical.URL) {
	if n.only != nil && !n.only(u.Host()) {
		return
	}
	n.trust(u)
	if h := seedHostOf(u); n.addresses.Name(h.name, h.port) {
		n.lookups.TryGo(func() error { return n.settle(ctx, h) })
	}
}

// lookUp looks up hosts that the user named, and allows their private addresses.
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

// settle decides which addresses the host of a seed allows. In a fleet these are the ones that the first process with
// such a seed has found.
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

// share stores in the fleet which addresses a host allows that the user named, if that is decided. They apply as long
// as the job exists.
func (n *named) share(ctx context.Context, host string, port uint16) {
	if n.fleet == nil {
		return
	}
	addrs, known := n.addresses.Opened(host, port)
	if !known {
		return
	}
	hosts := map[string]string{host: joinAddresses(addrs)}
	for _, a := range addrs { // the user has named these addresses with the host
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

// askFleet returns the addresses that a host allows at a port according to another process of the fleet. If they cannot
// be read, none are allowed.
func (n *named) askFleet(ctx context.Context, host string, port uint16) []netip.Addr {
	addrs, _ := parseAddresses(n.opening(ctx, host, port)) // none if there is an error
	return addrs
}

// opening returns what the job has stored about a host and port that users named; empty if there is nothing or if it
// cannot be read.
func (n *named) opening(ctx context.Context, host string, port uint16) string {
	text, err := n.fleet.Opening(ctx, hostPort(host, port))
	if err != nil {
		n.log.Warn("private addresses of a seed may be refused", slog.String("host", host), slog.Any("error", err))
	}
	return text
}

// hostPort, joinAddresses and parseAddresses define how allowed addresses are stored.
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

// keepAddresses stores which addresses the host of a seed allows at a port: see [reach.Openings].
func (s *State) keepAddresses(host string, port uint16, addrs []netip.Addr) {
	key, text := metaAddresses+hostPort(host, port), joinAddresses(addrs)
	if s.store.Meta(key) != text { // many seeds may share a host
		s.store.SetMeta(key, text)
	}
}

// restore restores which addresses the seeds of earlier runs have allowed, or that they allow none. In a new round the
// hosts are looked up again, whatever their addresses were before.
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

// trust allows the host of a seed to get credentials; also in the clear if the seed is an http URL.
func (n *named) trust(u canonical.URL) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[u.Host()] = n.hosts[u.Host()] || u.Scheme() == "http"
}

// trusts implements fetch.Config.Trusted.
func (n *named) trusts(authority string, secure bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear, ok := n.hosts[authority]
	return ok && (secure || clear)
}

// logWithheld returns a function that logs, once per host, that credentials were withheld from it.
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

// readmit admits a seed of an earlier run to the scope, unless it stays outside. Only hosts of seeds that were given may get credentials, not
// those of redirect targets. No private addresses are allowed beyond those that were allowed then: the other seeds had
// public ones, or did not come from the user.
func readmit(c *Crawler, u canonical.URL, given, outside bool) {
	c.named.addresses.Shut(u.Hostname())
	if given {
		c.named.trust(u)
	}
	if !outside {
		c.scope.AddSeed(u)
	}
}
