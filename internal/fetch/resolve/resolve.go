package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/clock/lifetime"
	"github.com/treadlight/crawl/internal/fetch/reach"
)

// Defaults of [Config].
const (
	defaultMax     = 10_000 // names, of about 200 bytes each
	defaultTTL     = 2 * time.Minute
	defaultTimeout = 10 * time.Second
)

const (
	// negativeTTL is how long the absence of a name is cached: half a minute as in browsers, not the time that the zone
	// gives (RFC 2308 section 5).
	negativeTTL = 30 * time.Second
	// staleTTL is how long an expired answer is used while name servers do not answer (RFC 8767 section 5 suggests
	// days).
	staleTTL = time.Hour
	// staleAgain is how long a stale answer is used before the name is looked up again.
	staleAgain = 30 * time.Second
	// mostAddresses bounds the addresses of one answer. Connections are tried to a few of them at most.
	mostAddresses = 16
)

// Family selects the IP version of addresses.
type Family uint8

// The families. The zero Family is both.
const (
	Any  Family = iota // both, in the order that the system prefers
	IPv4               // only IPv4
	IPv6               // only IPv6
)

func (f Family) network() string { return [...]string{"ip", "ip4", "ip6"}[f] }

func (f Family) takes(a netip.Addr) bool { return f == Any || (f == IPv4) == a.Unmap().Is4() }

// Config configures a [Resolver]. The zero Config is usable.
type Config struct {
	Static  []Static      // take precedence over all other answers; the first that matches applies
	Family  Family        // selects the IP version; zero means both
	Server  string        // IP address and port of a name server; empty means those of the system
	TTL     time.Duration // how long an answer is cached; zero means 2m, less than zero not at all
	Max     int           // bounds the cached names; zero means 10000
	Timeout time.Duration // bounds one lookup, even if nobody waits for it any more; zero means 10s
	// Lookup, if set, replaces name servers; network is ip, ip4 or ip6. It must be safe for concurrent use.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Clock  clock.Clock // tells the age of answers; nil means the system clock
}

// Answer has the addresses of a host.
type Answer struct {
	Addrs  []netip.Addr // at least one, the preferred first; shared, must not be changed
	Static bool         // set by the user as a [Static] answer
}

// Resolver looks up addresses. It is made by [New].
type Resolver struct {
	cfg   Config
	cache *lru.Cache[string, kept] // bounded; an evicted name is looked up again
	group singleflight.Group       // lookups in progress

	life *lifetime.Lifetime // of the lookups in progress
}

type kept struct {
	addrs []netip.Addr
	err   error     // set if the name does not exist
	until time.Time // from then on the name is looked up again
	stale time.Time // until then the answer may be used if name servers do not answer
}

// ErrClosed is the error of a Lookup after Close.
var ErrClosed = errors.New("the resolver is closed")

// New returns a Resolver, or an error that names the invalid field of cfg.
func New(cfg Config) (*Resolver, error) {
	cfg.Clock, cfg.TTL = cmp.Or(cfg.Clock, clock.System()), cmp.Or(cfg.TTL, defaultTTL)
	cfg.Max, cfg.Timeout = cmp.Or(cfg.Max, defaultMax), cmp.Or(cfg.Timeout, defaultTimeout)
	if cfg.Max < 0 || cfg.Timeout < 0 || cfg.Family > IPv6 {
		return nil, fmt.Errorf("resolve: Config.Max is %d, Timeout %v and Family %d: use positive values, or zero for %d, %v and both families",
			cfg.Max, cfg.Timeout, cfg.Family, defaultMax, defaultTimeout)
	}
	if cfg.Lookup == nil {
		lookup, err := system(cfg.Server)
		if err != nil {
			return nil, err
		}
		cfg.Lookup = lookup
	}
	r := &Resolver{cfg: cfg, life: lifetime.New()}
	var err error
	if r.cache, err = lru.New[string, kept](cfg.Max); err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	return r, nil
}

// system returns the lookup of Go's resolver, with the name servers of the system or with the given one.
func system(server string) (func(context.Context, string, string) ([]netip.Addr, error), error) {
	if server == "" {
		return net.DefaultResolver.LookupNetIP, nil
	}
	at, err := ParseServer(server)
	if err != nil {
		return nil, fmt.Errorf("resolve: Config.Server %w", err)
	}
	var d net.Dialer
	res := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, at.String())
	}}
	return res.LookupNetIP, nil
}

// dnsPort is the port of name servers (RFC 1035 section 4.2).
const dnsPort = 53

// ParseServer parses an IP address with an optional port, by default 53. The error tells the user what to write.
func ParseServer(s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return netip.AddrPortFrom(a, dnsPort), nil
	}
	at, err := netip.ParseAddrPort(s)
	if err != nil || at.Port() == 0 {
		return at, fmt.Errorf("%q is no name server; give an IP address such as 192.0.2.53 or [2001:db8::53]:5353", s)
	}
	return at, nil
}

// Close cancels the lookups in progress and waits for them to end.
func (r *Resolver) Close() { r.life.End() }

// Lookup returns the addresses of a host, which is a name or an address without brackets, for a connection to that
// port. The error is a [net.DNSError], also when ctx ends, or [ErrClosed] if the Resolver was closed.
func (r *Resolver) Lookup(ctx context.Context, host string, port uint16) (Answer, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addrs := r.static(host, port); addrs != nil {
		return Answer{Addrs: addrs, Static: true}, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return r.literal(host, a)
	}
	if reach.Localhost(host) {
		return r.literal(host, reach.Loopback...)
	}
	if k, ok := r.cache.Get(host); ok && r.cfg.Clock.Now().Before(k.until) {
		return Answer{Addrs: k.addrs}, k.err
	}
	return r.wait(ctx, host)
}

// literal returns the answer for a host whose addresses need no lookup.
func (r *Resolver) literal(host string, addrs ...netip.Addr) (Answer, error) {
	if addrs = slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !r.cfg.Family.takes(a) }); len(addrs) == 0 {
		return Answer{}, r.otherFamily(host)
	}
	return Answer{Addrs: addrs}, nil
}

// otherFamily returns the error for a host that has no addresses of the wanted family.
func (r *Resolver) otherFamily(host string) error {
	return &net.DNSError{Err: fmt.Sprintf("no IPv%d address, and no other is wanted", 4+2*(r.cfg.Family-IPv4)), Name: host, IsNotFound: true}
}

func (r *Resolver) static(host string, port uint16) []netip.Addr {
	for i := range r.cfg.Static {
		if s := &r.cfg.Static[i]; s.matches(host, port) {
			return s.Addrs
		}
	}
	return nil
}

// wait starts or joins a lookup, and returns its answer or when ctx ends. The lookup continues in that case.
func (r *Resolver) wait(ctx context.Context, host string) (Answer, error) {
	answer := r.group.DoChan(host, func() (any, error) { return r.refresh(host) })
	select {
	case got := <-answer:
		k, _ := got.Val.(kept)
		return Answer{Addrs: k.addrs}, got.Err
	case <-ctx.Done():
		return Answer{}, &net.DNSError{
			Err: "no answer in time", Name: host, UnwrapErr: ctx.Err(),
			IsTimeout: errors.Is(ctx.Err(), context.DeadlineExceeded), IsTemporary: true,
		}
	}
}

func (r *Resolver) refresh(host string) (kept, error) {
	if !r.life.Begin() {
		return kept{}, ErrClosed
	}
	defer r.life.Done()
	ctx, cancel := context.WithTimeout(r.life.Context(), r.cfg.Timeout)
	defer cancel()
	addrs, err := r.cfg.Lookup(ctx, r.cfg.Family.network(), host)
	if r.life.Over() {
		return kept{}, ErrClosed
	}
	if addrs = r.wanted(addrs); err == nil && len(addrs) == 0 {
		err = r.none(host)
	}
	now := r.cfg.Clock.Now()
	before, had := r.cache.Peek(host)
	if err != nil && had && len(before.addrs) > 0 && now.Before(before.stale) && !notFound(err) {
		before.until = now.Add(staleAgain)
		r.cache.Add(host, before)
		return before, nil
	}
	if err != nil && !notFound(err) { // it does not say that the name does not exist
		return kept{}, err
	}
	k := kept{addrs: addrs, err: err, until: now.Add(max(r.cfg.TTL, 0))}
	if k.stale = k.until.Add(staleTTL); err != nil {
		k.until, k.stale = now.Add(min(negativeTTL, max(r.cfg.TTL, 0))), time.Time{}
	}
	if r.cfg.TTL > 0 {
		r.cache.Add(host, k)
	}
	return k, err
}

// none returns the error for a lookup without a wanted address.
func (r *Resolver) none(host string) error {
	if r.cfg.Family == Any {
		return &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return r.otherFamily(host)
}

// wanted returns the addresses of the wanted family, without duplicates, in their order.
func (r *Resolver) wanted(addrs []netip.Addr) []netip.Addr {
	out := make([]netip.Addr, 0, min(len(addrs), mostAddresses))
	for _, a := range addrs {
		a = a.Unmap()
		if len(out) < mostAddresses && a.IsValid() && r.cfg.Family.takes(a) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

func notFound(err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}

// Doubt makes a name be looked up again at its next use. The old answer is still used while no name server answers.
func (r *Resolver) Doubt(host string) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if k, ok := r.cache.Peek(host); ok {
		k.until = r.cfg.Clock.Now()
		r.cache.Add(host, k)
	}
}
