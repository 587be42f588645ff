package reach

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Openings are the non-public addresses to which connections are allowed, with their ports, because the user has named
// them in seeds. A seed whose host is an address, or localhost, opens that address. A seed whose host is a name opens
// the addresses of the name if all are private at the first lookup, and none otherwise, also if it has other addresses
// later. An address of [Link] is opened only by a seed that has the address itself. A URL with an address as its host
// may lead to every open address; a name may lead only to the addresses that it has opened itself.
//
// The zero Openings is empty and ready to use; nil stays empty. Its size is bounded by the number of hosts named, and
// it is safe for concurrent use.
type Openings struct {
	// OnOpen, if set before the first use, is called when the host of a seed has opened addresses at a port. It is
	// called without addresses when the host has lost them, and for names that have opened none so far, for the first
	// 10,000 names. It must not call methods of the Openings.
	OnOpen func(host string, port uint16, addrs []netip.Addr)
	// Ask, if set before the first use, returns the addresses that a host has opened at a port in other processes. It
	// is called before an address is refused.
	Ask func(ctx context.Context, host string, port uint16) []netip.Addr

	mu    sync.Mutex // guards what follows
	pairs map[netip.AddrPort]struct{}
	names map[string]*name
}

type name struct {
	ports   []uint16
	decided bool         // it was looked up
	addrs   []netip.Addr // the addresses open to it
}

// maxTold bounds the names without open addresses for which OnOpen is called.
const maxTold = 10_000

// shut is a name that may lead only to public addresses.
var shut = &name{decided: true}

// Name notes that the user has named a host at a port, and reports whether [Openings.Decide] still needs its addresses.
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

// Decide takes the addresses of a name from a lookup. At the first lookup all of them are opened if all are private. A
// public address in any lookup closes the name for good. Names that the user has not named are ignored.
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

// Inquire calls Ask for what a host has opened at a port, if one of these addresses is not allowed. Private says
// whether private addresses are allowed for all hosts.
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

// Opened returns the addresses that a named host has opened at a port. Known is false if that is undecided.
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

// opened returns the addresses that are open to a name at a port. A nil name has none.
func (n *name) opened(port uint16) []netip.Addr {
	if n == nil || !slices.Contains(n.ports, port) {
		return nil
	}
	return n.addrs
}

// Restore opens addresses again that were passed to OnOpen earlier, or that other processes have opened. A name known
// as public stays closed.
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

// Shut notes a name in the seeds of an earlier run. It opens nothing now, except by Restore.
func (o *Openings) Shut(host string) {
	host = normal(host)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names[host] == nil && fixed(host) == nil {
		o.setName(host, shut)
	}
}

// Close closes a name that other processes of the same crawl have found to be public.
func (o *Openings) Close(host string) {
	host = normal(host)
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.names[host]; n != nil && n != shut {
		o.shut(host, n)
	}
}

// Awaits reports whether a name was named at a port and its addresses are not known yet.
func (o *Openings) Awaits(host string, port uint16) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.names[normal(host)]
	return n != nil && !n.decided && slices.Contains(n.ports, port)
}

// Allows reports whether a connection for a host may lead to an address: if it is public, if it is private and private
// addresses are allowed for all, or if it is open to the host.
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

// Control returns a function for the Control field of [net.Dialer]. It refuses disallowed addresses when the socket
// connects to them, with the error that refuse returns.
func (o *Openings) Control(host string, private bool, refuse func(addr string) error) func(network, addr string, _ syscall.RawConn) error {
	return func(network, addr string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(addr)
		if err != nil || network != "tcp4" && network != "tcp6" || !o.Allows(host, at, private) {
			return refuse(addr)
		}
		return nil
	}
}

// open opens addresses for a host and calls OnOpen. The caller holds the lock.
func (o *Openings) open(host string, port uint16, addrs []netip.Addr) {
	if o.add(port, addrs) && o.OnOpen != nil {
		o.OnOpen(host, port, addrs)
	}
}

// add adds the addresses that are not public, and reports whether there are any. The caller holds the lock.
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

// Localhost reports whether a name means this machine, whatever name servers respond (RFC 6761, 6.3).
func Localhost(host string) bool {
	host = normal(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Own reports whether a host is this machine, by its name or address alone.
func Own(host string) bool {
	addrs := fixed(host)
	return len(addrs) > 0 && addrs[0].IsLoopback()
}

// Loopback lists the loopback addresses. It must not be changed.
var Loopback = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// fixed returns the addresses of a host that no lookup can change, or nil.
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
