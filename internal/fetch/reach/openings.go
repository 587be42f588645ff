package reach

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Openings are the non-public addresses that may be dialled, each with its ports, because the user has named them. A
// seed whose host is an address, or localhost, opens that. A name opens its addresses if all are private at the first
// lookup, and none otherwise, also if it leads elsewhere later. Addresses of [Link] are opened only by themselves. An
// open address is open for whoever writes the address; a name leads only to what it has opened itself.
//
// The zero Openings is empty and ready; nil stays empty. It is bounded by the hosts named, and safe for concurrent
// use.
type Openings struct {
	// OnOpen, if set before the first use, is called when a seed's host has opened addresses at a port; with none when
	// it has lost them or is a name that has opened none, for the first 10,000 names. It must not call back.
	OnOpen func(host string, port uint16, addrs []netip.Addr)
	// Ask, if set before the first use, returns what other processes know a host to have opened at a port. It is
	// called before an address is refused.
	Ask func(ctx context.Context, host string, port uint16) []netip.Addr

	mu    sync.Mutex // guards what follows
	pairs map[netip.AddrPort]struct{}
	names map[string]*name
}

type name struct {
	ports   []uint16
	decided bool         // it has been looked up
	addrs   []netip.Addr // that are open for it
}

// maxTold bounds the names without openings of which OnOpen is told.
const maxTold = 10_000

// shut is a name that leads nowhere but to public addresses.
var shut = &name{decided: true}

// Name notes that the user named a host at a port, and reports whether [Openings.Decide] needs its addresses.
func (o *Openings) Name(host string, port uint16) bool {
	host = normal(host)
	o.mu.Lock()
	defer o.mu.Unlock()
	if addrs := fixed(host); addrs != nil {
		o.open(host, port, addrs)
		return false
	}
	n := o.names[host]
	if n == nil {
		n = new(name)
		o.setName(host, n)
	}
	if n != shut {
		if slices.Contains(n.ports, port) {
			return !n.decided
		}
		n.ports = append(n.ports, port)
	}
	switch {
	case len(n.addrs) > 0:
		o.open(host, port, n.addrs)
	case o.OnOpen != nil && len(o.names) <= maxTold:
		o.OnOpen(host, port, nil)
	}
	return !n.decided
}

// Decide takes the addresses of a name. The first time all are opened if all are private. A public one at any time
// closes the name for good. Unnamed names are ignored.
func (o *Openings) Decide(host string, addrs []netip.Addr) {
	if o == nil {
		return
	}
	host = normal(host)
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.names[host]
	if n == nil || n == shut {
		return
	}
	private := !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return Of(a) != Private })
	switch {
	case n.decided && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return Of(a) == Public }):
	case n.decided || !private:
		o.shut(host, n)
	default:
		n.decided = true
		for _, a := range addrs {
			n.addrs = append(n.addrs, plain(a))
		}
		for _, port := range n.ports {
			o.open(host, port, n.addrs)
		}
	}
}

// Inquire asks others what a host has opened at a port, if it may not lead to all of these addresses.
func (o *Openings) Inquire(ctx context.Context, host string, port uint16, addrs []netip.Addr, private bool) {
	if o == nil || o.Ask == nil {
		return
	}
	host = normal(host)
	for _, a := range addrs {
		if o.Allows(host, netip.AddrPortFrom(a, port), private) {
			continue
		}
		who := host
		if fixed(host) != nil {
			who = plain(a).String()
		}
		if open := o.Ask(ctx, who, port); len(open) > 0 {
			o.Restore(who, port, open)
		}
	}
}

// Opened is what a named host has opened at a port; known is false if that is undecided.
func (o *Openings) Opened(host string, port uint16) (addrs []netip.Addr, known bool) {
	host = normal(host)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range fixed(host) {
		if _, ok := o.pairs[netip.AddrPortFrom(a, port)]; ok {
			addrs = append(addrs, a)
		}
	}
	if addrs != nil {
		return addrs, true
	}
	n := o.names[host]
	return n.opened(port), n != nil && n.decided
}

// opened is what a name leads to at a port. A nil name leads nowhere.
func (n *name) opened(port uint16) []netip.Addr {
	if n == nil || !slices.Contains(n.ports, port) {
		return nil
	}
	return n.addrs
}

// Restore brings back what OnOpen was told earlier, or others have opened. A name known as public stays closed.
func (o *Openings) Restore(host string, port uint16, addrs []netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if fixed(host) == nil {
		n := o.names[host]
		if n == shut {
			return
		}
		if n == nil {
			n = &name{decided: true, addrs: addrs}
			o.setName(host, n)
		}
		if n.decided, n.addrs = true, addrs; !slices.Contains(n.ports, port) {
			n.ports = append(n.ports, port)
		}
	}
	o.add(port, addrs)
}

// Shut notes a seed's name of an earlier run, which opens nothing now unless by Restore.
func (o *Openings) Shut(host string) {
	host = normal(host)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names[host] == nil && fixed(host) == nil {
		o.setName(host, shut)
	}
}

// Close closes a name that others of the same crawl have found public.
func (o *Openings) Close(host string) {
	host = normal(host)
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.names[host]; n != nil && n != shut {
		o.shut(host, n)
	}
}

// Awaits reports whether a name was named at a port, and nobody knows yet where it leads.
func (o *Openings) Awaits(host string, port uint16) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.names[normal(host)]
	return n != nil && !n.decided && slices.Contains(n.ports, port)
}

// Allows reports whether a connection for a host may lead to an address: public, private if allowed for all, or open.
func (o *Openings) Allows(host string, at netip.AddrPort, private bool) bool {
	switch r := Of(at.Addr()); {
	case r == Public, r == Private && private:
		return true
	case o == nil:
		return false
	}
	host, at = normal(host), netip.AddrPortFrom(plain(at.Addr()), at.Port())
	o.mu.Lock()
	defer o.mu.Unlock()
	if fixed(host) != nil {
		_, ok := o.pairs[at]
		return ok
	}
	return slices.Contains(o.names[host].opened(at.Port()), at.Addr())
}

// Control is for [net.Dialer]: it refuses disallowed addresses, as the socket connects to them, with the error of
// refuse.
func (o *Openings) Control(host string, private bool, refuse func(addr string) error) func(network, addr string, _ syscall.RawConn) error {
	return func(network, addr string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(addr)
		if err != nil || network != "tcp4" && network != "tcp6" || !o.Allows(host, at, private) {
			return refuse(addr)
		}
		return nil
	}
}

// open opens addresses for a host. The caller holds the lock.
func (o *Openings) open(host string, port uint16, addrs []netip.Addr) {
	if o.add(port, addrs) && o.OnOpen != nil {
		o.OnOpen(host, port, addrs)
	}
}

// add enters the addresses that are not public, and reports whether there is one. The caller holds the lock.
func (o *Openings) add(port uint16, addrs []netip.Addr) (some bool) {
	if o.pairs == nil {
		o.pairs = make(map[netip.AddrPort]struct{})
	}
	for _, a := range addrs {
		if Of(a) != Public {
			o.pairs[netip.AddrPortFrom(a, port)] = struct{}{}
			some = true
		}
	}
	return some
}

func (o *Openings) shut(host string, n *name) {
	o.names[host] = shut
	if o.OnOpen == nil || n.addrs == nil {
		return
	}
	for _, port := range n.ports {
		o.OnOpen(host, port, nil)
	}
}

func (o *Openings) setName(host string, n *name) {
	if o.names == nil {
		o.names = make(map[string]*name)
	}
	o.names[host] = n
}

// Localhost reports whether a name means this machine, whatever name servers say (RFC 6761, 6.3).
func Localhost(host string) bool {
	host = normal(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Loopback is where this machine listens for itself. It must not be changed.
var Loopback = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// fixed is the addresses of a host that nobody can point elsewhere, or nil.
func fixed(host string) []netip.Addr {
	if Localhost(host) {
		return Loopback
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{plain(a)}
	}
	return nil
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func normal(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }
