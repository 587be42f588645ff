package frontier

import (
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// nameOf is the name under which the limiter paces a URL's host, so that one budget is
// one queue: http://a.test:443 is https://a.test.
func nameOf(u canonical.URL) string { return ratelimit.Domain(u.Host()) }

// host finds or makes the host of a name. It is nil when there is no room for it: when
// MaxHosts are known and every one has work, or would lose its page budget by being
// forgotten; and when there are inactive ones, of which it may be one, and which came
// earlier. A forgotten host begins again as a new one, which is the more careful way to
// treat it.
func (f *Frontier) host(name string) *host {
	h := f.hosts[name]
	if h != nil && !h.foreign {
		return h
	}
	if v := f.stored; v != nil && (v.inactive > 0 || v.forgot && f.cfg.MaxPagesPerHost > 0) {
		return nil
	}
	if h != nil {
		h.foreign = false // nothing is inactive
		return h
	}
	if len(f.hosts) >= f.cfg.MaxHosts && !f.forget() {
		return nil
	}
	return f.adopt(name)
}

// robotsHost finds or makes the host of a robots.txt that has moved. It is made even if there
// is no room, or if URLs of it may be inactive: others wait for that file, each of which has
// a place.
func (f *Frontier) robotsHost(name string) *host {
	if h := f.hosts[name]; h != nil {
		return h
	}
	var h *host
	if f.fleet == nil { // or it may be another process's
		h = f.host(name)
	}
	if h == nil && f.stored != nil {
		h = f.adopt(name)
		h.foreign = true
	}
	return h
}

// adopt makes a host.
func (f *Frontier) adopt(name string) *host {
	h := &host{name: name, turn: turn{index: -1}, slotUse: slotUse{slots: f.slots(name)}}
	_, h.excluded = f.excluded[name]
	f.hosts[name] = h
	f.roll.add(h)
	f.counts.hosts.Store(int64(len(f.hosts)))
	return h
}

// forget drops the host that has been without work the longest.
func (f *Frontier) forget() bool {
	if f.stored == nil && f.cfg.MaxPagesPerHost > 0 || f.stored != nil && f.stored.activating {
		return false // the store's answer may tell of it
	}
	for len(f.idle) > 0 {
		h := f.idle[0]
		f.idle[0] = nil
		f.idle = f.idle[1:]
		h.idle = false
		if !h.busy() && f.hosts[h.name] == h {
			f.drop(h)
			if f.stored != nil {
				f.stored.forgot = true
			}
			return true
		}
	}
	return false
}

// drop takes a host out of memory.
func (f *Frontier) drop(h *host) {
	delete(f.hosts, h.name)
	f.roll.remove(h)
	f.counts.hosts.Store(int64(len(f.hosts)))
}

// slots is how many leases a host may have out.
func (f *Frontier) slots(name string) int32 {
	n := f.cfg.PerHost
	if f.cfg.InFlight != nil {
		if own := f.cfg.InFlight(name); own > 0 {
			n = min(n, own)
		}
	}
	return int32(n)
}
