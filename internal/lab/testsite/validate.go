package testsite

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// The defaults of Config, in one place so that the field comments can be checked
// against them.
const (
	defaultBase   = "127.0.1.1" // apart from 127.0.0.1, where other programs listen
	defaultGrace  = 50 * time.Millisecond
	defaultPages  = 100
	defaultFanout = 10
	defaultMin    = 2 << 10
	defaultMax    = 8 << 10
)

// The bounds keep a slip of the pen in a file from taking the machine down: one
// listener per host, one bit per page, one buffer per page being written.
const (
	maxHosts = 10_000
	// maxPerAddress leaves the system's range of free ports room for other programs.
	maxPerAddress = 1000
	maxPages      = 10_000_000
	maxItems      = 1_000_000
	maxLinks      = 1000
	maxFanout     = 10_000
	maxText       = 16 << 20
	maxSteps      = 1000
	maxLatency    = 10 * time.Minute
	maxWait       = 24 * time.Hour
	maxOutage     = 10_000 * time.Hour
	maxLimits     = 16
	maxBody       = 64 << 10
)

// The words of the file, each once.
const (
	distFixed, distUniform, distLognormal = "fixed", "uniform", "lognormal"
	retryNone, retrySeconds, retryDate    = "none", "seconds", "http-date"
	retryRFC850, retryAsctime, retryPast  = "rfc850", "asctime", "past"
	retryAbsurd, retryGarbage             = "absurd", "garbage"
	headersNone, headersLegacy            = "none", "legacy"
	headersIETF, modeDrop                 = "ietf", "drop"
	kindLeaky, kindToken                  = "leaky-bucket", "token-bucket"
	kindFixed, kindSliding                = "fixed-window", "sliding-window"
	kindLog, kindSlots                    = "sliding-window-log", "concurrency"
	modeRefuse, modeStatus, modeHang      = "refuse", "status", "hang"
	modeReset, modeClose                  = "reset", "close-listener"
	kindReset                             = "reset"
)

// A file that is half understood makes a site that nobody meant, and the crawler is
// blamed for what it does there. So every value is checked, and so is every field
// that would be ignored for want of another one.

// validate reports every value that is out of bounds, by its path in the file, with what
// to write instead, in the order of the file's fields. It looks at the values as written,
// before defaults.
func (c *Config) validate() error {
	if len(c.Hosts) == 0 {
		return errors.New("hosts: there are none; list at least one, such as hosts: [{pages: 20}]")
	}
	var errs []error
	total, addresses, ports := 0, 0, 1
	for i := range c.Hosts {
		h := &c.Hosts[i]
		errs = append(errs, h.validate(fmt.Sprintf("hosts[%d]", i)))
		total += max(1, h.Count)
		if h.OneAddress {
			addresses++
			ports = max(ports, h.Count)
		} else {
			addresses += max(1, h.Count)
		}
	}
	counted := within("hosts (counted)", total, 1, maxHosts)
	errs = append(errs, counted,
		within("port", c.Port, 0, 65535),
		within("grace", c.Grace, 0, 10*time.Second),
		checkPorts(c.Port, ports),
	)
	if counted == nil {
		errs = append(errs, checkBase(c.Base, addresses))
	}
	return errors.Join(errs...)
}

// checkPorts makes sure that hosts on one address find ports above the site's.
func checkPorts(port, n int) error {
	if n > maxPerAddress || port <= 65535 && port+n-1 > 65535 {
		return fmt.Errorf("hosts: %d on one address need as many ports from %d on, and no more than %d may; use a lower count or port", n, port, maxPerAddress)
	}
	return nil
}

// checkBase makes sure that n addresses from base on are loopback addresses: a test
// site must never be reachable from another machine, however it is configured.
func checkBase(base string, n int) error {
	addr, err := netip.ParseAddr(cmp.Or(base, defaultBase))
	if err != nil || !addr.Is4() || !addr.IsLoopback() {
		return fmt.Errorf("base: %q is no address in 127.0.0.0/8; use one such as %s", base, defaultBase)
	}
	for range n - 1 {
		addr = addr.Next()
	}
	if !addr.IsLoopback() {
		return fmt.Errorf("base: %d hosts from %s on leave 127.0.0.0/8; use a lower address", n, base)
	}
	return nil
}

// validate goes through the fields in the order of the struct, which is the one that
// files are written in.
func (h *Host) validate(path string) error {
	return errors.Join(
		checkName(path+".name", h.Name),
		within(path+".count", h.Count, 0, maxHosts),
		within(path+".pages", h.Pages, 0, maxPages),
		within(path+".fanout", h.Fanout, 0, maxFanout),
		within(path+".cross_links", h.CrossLinks, 0, maxLinks),
		within(path+".host_links", h.HostLinks, 0, maxLinks),
		within(path+".media", h.Media, 0, maxItems),
		within(path+".redirects", h.Redirects, 0, maxItems),
		within(path+".missing", h.Missing, 0, maxItems),
		within(path+".private", h.Private, 0, maxItems),
		within(path+".listed", h.Listed, 0, maxItems),
		h.Size.validate(path+".size"),
		h.Latency.validate(path+".latency"),
		h.checkAddress(path),
		h.Limit.validate(path+".limit"),
		checkLimits(path+".limits", h.Limits),
		h.Load.validate(path+".load"),
		h.Day.validate(path+".day"),
		h.Ban.validate(path+".ban"),
		h.Refusal.validate(path+".refusal"),
		checkScript(path+".script", h.Script),
		h.Flaky.validate(path+".flaky"),
		checkOutages(path+".outages", h.Outages),
		h.Robots.validate(path+".robots"),
	)
}

// checkName keeps names to what needs no quoting in a table, a page or a shell.
func checkName(path, name string) error {
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' }
	if len(name) > 32 || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return fmt.Errorf("%s: %q has other signs than a to z, 0 to 9 and hyphen, or more than 32; use one such as slow-2", path, name)
	}
	return nil
}

// validate leaves Min alone when Max is zero: that means "all of one size".
func (s Size) validate(path string) error {
	err := errors.Join(within(path+".min", s.Min, 0, maxText), within(path+".max", s.Max, 0, maxText))
	if err == nil && s.Max > 0 && s.Min > s.Max {
		return fmt.Errorf("%s: min %d is above max %d; swap them", path, s.Min, s.Max)
	}
	return err
}

func (l *Latency) validate(path string) error {
	widest := 1.0 // a wider uniform distribution would reach below zero
	if l.Dist == distLognormal {
		widest = 2 // beyond it, half of all draws lie outside of a quarter to four times the median
	}
	err := errors.Join(
		within(path+".typical", l.Typical, 0, maxLatency),
		oneOf(path+".dist", l.Dist, "", distFixed, distUniform, distLognormal),
		within(path+".spread", l.Spread, 0, widest),
		within(path+".body", l.Body, 0, maxLatency),
	)
	if err == nil && l.Spread > 0 && cmp.Or(l.Dist, distFixed) == distFixed {
		return fmt.Errorf("%s.spread: it has no meaning with a fixed value; set %s.dist to uniform or lognormal", path, path)
	}
	return err
}

// validate has a floor for the rate because a slower one would overflow the interval
// once a burst is multiplied with it; one request in a quarter of an hour is slow
// enough.
func (l *Limit) validate(path string) error {
	err := errors.Join(
		within(path+".rate", l.Rate, 0, 1e6),
		within(path+".burst", l.Burst, 0, maxItems),
		within(path+".requests", l.Requests, 0, 1e9),
		within(path+".window", l.Window, 0, maxWait),
		within(path+".concurrent", l.Concurrent, 0, maxItems),
	)
	switch {
	case err != nil:
		return err
	case l.Burst > 0 && l.Rate == 0:
		return fmt.Errorf("%s.burst: it has no meaning without a rate; set %s.rate", path, path)
	case l.Rate > 0 && l.Rate < 1e-3:
		return fmt.Errorf("%s.rate: %v is out of range; use 0.001 to 1000000, or 0 for no limit", path, l.Rate)
	case (l.Requests > 0) != (l.Window > 0):
		return fmt.Errorf("%s: requests and window go together; set both, such as requests: 60, window: 1m", path)
	}
	return nil
}

func (r *Refusal) validate(path string) error {
	err := errors.Join(
		status(path+".status", r.Status),
		oneOf(path+".retry_after", r.RetryAfter, "", retryNone, retrySeconds, retryDate, retryRFC850, retryAsctime, retryPast, retryAbsurd, retryGarbage),
		within(path+".wait", r.Wait, 0, maxWait),
		oneOf(path+".headers", r.Headers, "", headersNone, headersLegacy, headersIETF),
		within(path+".body (bytes)", len(r.Body), 0, maxBody),
	)
	without := []string{"", retryNone, retryAbsurd, retryGarbage}
	if err == nil && r.Wait > 0 && slices.Contains(without, r.RetryAfter) {
		return fmt.Errorf("%s.wait: it has no meaning without a Retry-After that speaks of it; set %s.retry_after to seconds or http-date", path, path)
	}
	return err
}

// checkScript allows no 3xx: redirects are pages of their own, see Host.Redirects.
func checkScript(path string, steps []Step) error {
	errs := []error{within(path+" (steps)", len(steps), 0, maxSteps)}
	for i, s := range steps {
		at := fmt.Sprintf("%s[%d]", path, i)
		if s.Status != 200 && (s.Status < 400 || s.Status > 599) {
			errs = append(errs, fmt.Errorf("%s: %d is no status of a script; use 200 or 400 to 599", at, s.Status))
		}
		errs = append(errs, within(at, s.Times, -1, 1e9))
	}
	return errors.Join(errs...)
}

func (f *Flaky) validate(path string) error {
	errs := []error{
		within(path+".probability", f.Probability, 0, 1),
		within(path+".kinds (listed)", len(f.Kinds), 0, maxSteps),
	}
	for i, k := range f.Kinds {
		errs = append(errs, oneOf(fmt.Sprintf("%s.kinds[%d]", path, i), k, "500", "502", "503", "504", kindReset))
	}
	return errors.Join(errs...)
}

// checkOutages insists on order: a host walks through its outages once, and two at
// the same time would need a rule for which of them is meant.
func checkOutages(path string, outages []Outage) error {
	errs := []error{within(path+" (listed)", len(outages), 0, maxSteps)}
	end := time.Duration(0)
	for i := range outages {
		o, at := &outages[i], fmt.Sprintf("%s[%d]", path, i)
		err := o.validate(at)
		if err == nil && o.After < end {
			err = fmt.Errorf("%s.after: %v is before the end of the outage ahead of it, %v; list them in order and apart", at, o.After, end)
		}
		errs = append(errs, err)
		end = o.After + o.For
	}
	return errors.Join(errs...)
}

func (o *Outage) validate(path string) error {
	err := errors.Join(
		within(path+".after", o.After, 0, maxOutage),
		within(path+".for", o.For, time.Nanosecond, maxOutage),
		oneOf(path+".mode", o.Mode, "", modeRefuse, modeStatus, modeHang, modeReset, modeClose),
	)
	switch {
	case err != nil:
		return err
	case o.Mode == modeStatus:
		return within(path+".status", o.Status, 400, 599)
	case o.Status != 0:
		return fmt.Errorf("%s.status: it has no meaning in mode %q; use mode: status", path, cmp.Or(o.Mode, modeRefuse))
	}
	return nil
}

// validate keeps Disallow to plain prefixes. The full rules of RFC 9309 are what the
// crawler under test implements; a judge with the same code would share its mistakes.
func (r *Robots) validate(path string) error {
	errs := []error{
		within(path+".disallow (listed)", len(r.Disallow), 0, maxSteps),
		within(path+".crawl_delay", r.CrawlDelay, 0, maxWait),
		within(path+".times", r.Times, 0, 1e9),
		within(path+".latency", r.Latency, 0, maxLatency),
		within(path+".text (bytes)", len(r.Text), 0, maxText),
		status(path+".status", r.Status),
	}
	for i, p := range r.Disallow {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "*$\r\n") {
			errs = append(errs, fmt.Errorf("%s.disallow[%d]: %q is no plain prefix of a path; use one such as /private/", path, i, p))
		}
	}
	if r.Times > 0 && r.Status == 0 {
		errs = append(errs, fmt.Errorf("%s.times: it has no meaning without a status; set %s.status", path, path))
	}
	return errors.Join(errs...)
}

// within is written so that a NaN, which no comparison holds for, is out of range.
func within[T cmp.Ordered](path string, v, low, high T) error {
	if v >= low && v <= high {
		return nil
	}
	return fmt.Errorf("%s: %v is out of range; use %v to %v", path, v, low, high)
}

// oneOf accepts the listed values; the zero value, if listed, goes unmentioned.
func oneOf[T comparable](path string, v T, listed ...T) error {
	if slices.Contains(listed, v) {
		return nil
	}
	var zero T
	named := slices.DeleteFunc(slices.Clone(listed), func(x T) bool { return x == zero })
	return fmt.Errorf("%s: %v is unknown; use one of %v", path, v, named)
}

// withDefaults is the host as it is run: what zero means is written out.
func (h Host) withDefaults() Host {
	h.Name = cmp.Or(h.Name, "host")
	h.Pages = cmp.Or(h.Pages, defaultPages)
	h.Fanout = cmp.Or(h.Fanout, defaultFanout)
	if h.Size == (Size{}) {
		h.Size = Size{Min: defaultMin, Max: defaultMax}
	}
	h.Size.Max = cmp.Or(h.Size.Max, h.Size.Min)
	h.Refusal.Status = cmp.Or(h.Refusal.Status, 429)
	if len(h.Flaky.Kinds) == 0 {
		h.Flaky.Kinds = []string{"500", "503", kindReset}
	}
	return h
}

// place is a host and how far its port is above the site's; above zero it is on the
// address of the one before it.
type place struct {
	Host

	port int
}

// expand writes out counts: one place per host.
func expand(hosts []Host) []place {
	var all []place
	for _, h := range hosts {
		h = h.withDefaults()
		name := h.Name
		for i := range max(1, h.Count) {
			if h.Count > 0 {
				h.Name = fmt.Sprintf("%s-%d", name, i+1)
			}
			p := place{Host: h}
			if h.OneAddress {
				p.port = i
			}
			all = append(all, p)
		}
	}
	return all
}
