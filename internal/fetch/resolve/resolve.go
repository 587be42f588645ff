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
	"github.com/treadlight/crawl/internal/fetch/lifetime"
	"github.com/treadlight/crawl/internal/fetch/reach"
)

// Defaults of [Config].
const (
	defaultMax     = 10_000 // names; of about 200 bytes each
	defaultTTL     = 2 * time.Minute
	defaultTimeout = 10 * time.Second
)

const (
	// negativeTTL is how long a name does not exist: half a minute as in browsers, not the zone's (RFC 2308 section
	// 5).
	negativeTTL = 30 * time.Second
	// staleTTL is how long an expired answer serves while none is to be had (RFC 8767 section 5 suggests days).
	staleTTL = time.Hour
	// staleAgain is how long a stale answer serves before the name is looked up again.
	staleAgain = 30 * time.Second
	// mostAddresses bounds one answer. No more than a few of them are ever dialled.
	mostAddresses = 16
)

// Family is the version of IP that is wanted.
type Family uint8

// The families. The zero Family takes both.
const (
	Any  Family = iota // both, in the order that the system prefers
	IPv4               // only IPv4
	IPv6               // only IPv6
)

func (f Family) network() string { return [...]string{"ip", "ip4", "ip6"}[f] }

func (f Family) takes(a netip.Addr) bool { return f == Any || (f == IPv4) == a.Unmap().Is4() }

// Config says how a [Resolver] behaves. The zero Config is usable.
type Config struct {
	Static  []Static      // answers that go before all others, the first that matches first
	Family  Family        // leaves out the addresses of the other one; zero means both
	Server  string        // a name server's IP address with its port; empty means those of the system
	TTL     time.Duration // for which an answer is kept; zero means 2m, less than zero not at all
	Max     int           // names that are kept; zero means 10000
	Timeout time.Duration // of one lookup, whoever waits for it; zero means 10s
	// Lookup, if set, replaces name servers; network is ip, ip4 or ip6. It must be safe for concurrent use.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Clock  clock.Clock // tells how old answers are; nil means the system clock
}

// Answer is where a host is.
type Answer struct {
	Addrs  []netip.Addr // at least one, the preferred first; shared, not to be changed
	Static bool         // they are the user's own words, from a [Static] answer
}

// Resolver finds addresses. It is made by [New].
type Resolver struct {
	cfg   Config
	cache *lru.Cache[string, kept] // bounded; a name that is forgotten is looked up again
	group singleflight.Group       // lookups under way

	life *lifetime.Lifetime // of the lookups under way
}

type kept struct {
	addrs []netip.Addr
	err   error     // the name does not exist
	until time.Time // then it is looked up again
	stale time.Time // until then it serves where no answer is to be had
}

// ErrClosed is the error of a Lookup after Close.
var ErrClosed = errors.New("the resolver is closed")

// New returns a Resolver, or an error that names the wrong field of cfg.
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

// system is Go's resolver, which asks the servers of the system or one that was named.
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

// dnsPort is where name servers listen (RFC 1035 section 4.2).
const dnsPort = 53

// ParseServer reads an IP address, with a port unless 53. The error says what to write.
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

// Close ends the lookups under way and waits for them.
func (r *Resolver) Close() { r.life.End() }

// Lookup finds the addresses of a host, a name or an address without brackets, for a connection to that port. The
// error is a [net.DNSError] unless the Resolver was closed, also when ctx ends.
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

// literal is the answer for a host whose addresses nobody needs to be asked for.
func (r *Resolver) literal(host string, addrs ...netip.Addr) (Answer, error) {
	if addrs = slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !r.cfg.Family.takes(a) }); len(addrs) == 0 {
		return Answer{}, r.otherFamily(host)
	}
	return Answer{Addrs: addrs}, nil
}

// otherFamily is the error where there are addresses, and none of them is wanted.
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

// wait shares a lookup, and returns at its answer or when ctx ends; the lookup goes on.
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
	if err != nil && !notFound(err) { // it says nothing of the name
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

// none is the error where a lookup has brought nothing that is wanted.
func (r *Resolver) none(host string) error {
	if r.cfg.Family == Any {
		return &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return r.otherFamily(host)
}

// wanted is the addresses that may be dialled, each once, in their order.
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

// Doubt has a name looked up again at its next use. The old answer serves on while no name server answers.
func (r *Resolver) Doubt(host string) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if k, ok := r.cache.Peek(host); ok {
		k.until = r.cfg.Clock.Now()
		r.cache.Add(host, k)
	}
}
