package testsite

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/document"
)

// The words of the file that the code depends on.
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
	modeReset, modeClose, kindReset       = "reset", "close-listener", "reset"
)

const (
	defaultBase  = "127.0.1.1" // not 127.0.0.1, where other programs listen
	defaultPages = 100
	defaultGrace = 50 * time.Millisecond

	maxHosts  = 10_000 // each has a listener
	maxFanout = 10_000
	// maxPerAddress leaves most of the system's free ports to other programs.
	maxPerAddress = 1000
)

// validate reports every value that is out of range, by its path in the file and in the order of the fields, with what
// to write instead. It checks the values as written, before defaults.
func (c *Config) validate() error {
	if len(c.Hosts) == 0 {
		return errors.New("hosts: there are none; list at least one, such as hosts: [{pages: 20}]")
	}
	errs := []error{checkFields(reflect.ValueOf(c.Hosts), "hosts")}
	total, addresses, ports := 0, 0, 1
	for i := range c.Hosts {
		h := &c.Hosts[i]
		total += max(1, h.Count)
		if h.OneAddress {
			addresses++
			ports = max(ports, h.Count)
		} else {
			addresses += max(1, h.Count)
		}
	}
	if total > maxHosts {
		errs = append(errs, fmt.Errorf("hosts (counted): %d is out of range; use 1 to %d", total, maxHosts))
		addresses = 1
	}
	top := *c
	top.Hosts = nil
	errs = append(errs, checkFields(reflect.ValueOf(&top).Elem(), ""))
	// Hosts on one address use the ports above the site's.
	if ports > maxPerAddress || c.Port <= 65535 && c.Port+ports-1 > 65535 {
		errs = append(errs, fmt.Errorf("hosts: %d on one address need as many ports from %d on, and no more than %d may; use a lower count or port", ports, c.Port, maxPerAddress))
	}
	return errors.Join(append(errs, checkBase(c.Base, addresses))...)
}

// checker is a struct with rules that its tags cannot express. They are checked only if its fields are in range.
type checker interface {
	check(path string) error
}

// checkFields checks v and its elements or fields by their tags, and then by [checker].
func checkFields(v reflect.Value, path string) error {
	var errs []error
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			errs = append(errs, checkFields(v.Index(i), document.Item(path, i)))
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			name := tag(f)
			if name == "" {
				continue
			}
			at := document.Join(path, name)
			if with, ok := f.Tag.Lookup("with"); ok && !field.IsZero() && sibling(v, with).IsZero() {
				errs = append(errs, fmt.Errorf("%s: it has no meaning without %s; set both, or remove it", at, with))
			}
			if text, ok := f.Tag.Lookup("in"); ok {
				errs = append(errs, checkRange(field, at, text, true))
			} else if text, ok := f.Tag.Lookup("must"); ok {
				errs = append(errs, checkRange(field, at, text, false))
			}
			errs = append(errs, checkFields(field, at))
		}
		if c, ok := reflect.TypeAssert[checker](v.Addr()); ok && errors.Join(errs...) == nil {
			errs = append(errs, c.check(path))
		}
	}
	return errors.Join(errs...)
}

func sibling(v reflect.Value, name string) reflect.Value {
	return v.FieldByNameFunc(func(field string) bool {
		f, _ := v.Type().FieldByName(field)
		return tag(f) == name
	})
}

// checkRange checks a value against its tag, which is "low..high" or a list of words. NaN is out of range.
func checkRange(v reflect.Value, path, allowed string, orZero bool) error {
	low, high, isRange := strings.Cut(allowed, "..")
	if v.Kind() == reflect.Slice || v.Kind() == reflect.String && isRange {
		path += map[bool]string{true: " (listed)", false: " (bytes)"}[v.Kind() == reflect.Slice]
		v = reflect.ValueOf(v.Len())
	}
	switch {
	case orZero && v.IsZero():
		return nil
	case !isRange:
		return oneOf(path, v.String(), strings.Fields(allowed)...)
	case v.Type() == reflect.TypeFor[time.Duration]():
		from, errLow := time.ParseDuration(low)
		to, errHigh := time.ParseDuration(high)
		if d := time.Duration(v.Int()); errLow == nil && errHigh == nil && d >= from && d <= to {
			return nil
		}
	default:
		from, errLow := strconv.ParseFloat(low, 64)
		to, errHigh := strconv.ParseFloat(high, 64)
		if x := v.Convert(reflect.TypeFor[float64]()).Float(); errLow == nil && errHigh == nil && x >= from && x <= to {
			return nil
		}
	}
	return fmt.Errorf("%s: %v is out of range; use %s to %s", path, v, low, high)
}

func oneOf(path, word string, words ...string) error {
	if slices.Contains(words, word) {
		return nil
	}
	return fmt.Errorf("%s: %s is unknown; use one of %v", path, word, words)
}

// checkBase returns an error unless n addresses from base on are loopback addresses. So no file can make a test site
// reachable from another machine.
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

func (h *Host) limited() bool { return h.Limit != (Limit{}) || len(h.Limits) > 0 || h.Load != (Load{}) }

func (h *Host) check(path string) error {
	var errs []error
	// A valid name needs no quotes in a table, a page or a shell.
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' }
	if len(h.Name) > 32 || strings.ContainsFunc(h.Name, func(r rune) bool { return !plain(r) }) {
		errs = append(errs, fmt.Errorf("%s.name: %q has other signs than a to z, 0 to 9 and hyphen, or more than 32; use one such as slow-2", path, h.Name))
	}
	for i, k := range h.Flaky.Kinds {
		errs = append(errs, oneOf(document.Item(path+".flaky.kinds", i), k, "500", "502", "503", "504", kindReset))
	}
	end := time.Duration(0) // outages do not overlap
	for i := range h.Outages {
		o := &h.Outages[i]
		if o.After < end {
			errs = append(errs, fmt.Errorf("%s.outages[%d].after: %v is before the end of the outage ahead of it, %v; list them in order and apart", path, i, o.After, end))
		}
		end = o.After + o.For
	}
	return errors.Join(errs...)
}

func (s *Size) check(path string) error {
	if s.Max > 0 && s.Min > s.Max {
		return fmt.Errorf("%s: min %d is above max %d; swap them", path, s.Min, s.Max)
	}
	return nil
}

func (l *Latency) check(path string) error {
	widest := 1.0 // a wider uniform distribution would reach below zero
	if l.Dist == distLognormal {
		widest = 2 // beyond it half of all draws are outside of a quarter to four times the median
	}
	if !(l.Spread >= 0 && l.Spread <= widest) { // true for NaN
		return fmt.Errorf("%s.spread: %v is out of range; use 0 to %v", path, l.Spread, widest)
	}
	return nil
}

var limiterFields = map[string]struct{ has, needs []string }{
	kindLeaky:   {[]string{"rate", "burst", "delay"}, []string{"rate"}},
	kindToken:   {[]string{"rate", "burst"}, []string{"rate"}},
	kindFixed:   {[]string{"requests", "window"}, []string{"requests", "window"}},
	kindSliding: {[]string{"requests", "window"}, []string{"requests", "window"}},
	kindLog:     {[]string{"requests", "window"}, []string{"requests", "window"}},
	kindSlots:   {[]string{"concurrent"}, []string{"concurrent"}},
}

func (l *Limiter) check(path string) error {
	var errs []error
	fields := limiterFields[l.Kind]
	for f, v := range reflect.ValueOf(l).Elem().Fields() {
		switch name := tag(f); {
		case name == "" || name == "kind":
		case !v.IsZero() && !slices.Contains(fields.has, name):
			errs = append(errs, fmt.Errorf("%s.%s: a %s has none; remove it", path, name, l.Kind))
		case v.IsZero() && slices.Contains(fields.needs, name):
			errs = append(errs, fmt.Errorf("%s.%s: a %s needs one; set it", path, name, l.Kind))
		}
	}
	return errors.Join(errs...)
}

func (d *Day) check(path string) error {
	var errs []error
	if d.Low > 0 && len(d.Table) > 0 {
		errs = append(errs, fmt.Errorf("%s: low and table both say how the day goes; keep one", path))
	}
	length, last := d.length(), time.Duration(-1)
	for i, h := range d.Table {
		if h.At <= last || h.At < 0 || h.At >= length {
			errs = append(errs, fmt.Errorf("%s.table[%d].at: %v is not within a day of %v, or not after the entry before it; list them in order", path, i, h.At, length))
		}
		last = h.At
	}
	return errors.Join(errs...)
}

// check does not allow 3xx: redirects have pages of their own, see Host.Redirects.
func (s *Step) check(path string) error {
	switch {
	case s.Status != 200 && (s.Status < 400 || s.Status > 599):
		return fmt.Errorf("%s: %d is no status of a script; use 200 or 400 to 599", path, s.Status)
	case s.Times < -1 || s.Times > 1e9:
		return fmt.Errorf("%s: %d is out of range; use -1 to 1000000000", path, s.Times)
	}
	return nil
}

// check allows only plain prefixes in Disallow. The crawler under test implements the rules of RFC 9309; the same code
// here would make the same mistakes.
func (r *Robots) check(path string) error {
	for i, p := range r.Disallow {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "*$\r\n") {
			return fmt.Errorf("%s.disallow[%d]: %q is no plain prefix of a path; use one such as /private/", path, i, p)
		}
	}
	return nil
}

func (h Host) withDefaults() Host {
	h.Name = cmp.Or(h.Name, "host")
	h.Pages = cmp.Or(h.Pages, defaultPages)
	h.Fanout = cmp.Or(h.Fanout, 10)
	if h.Size == (Size{}) {
		h.Size = Size{Min: 2 << 10, Max: 8 << 10}
	}
	h.Size.Max = cmp.Or(h.Size.Max, h.Size.Min)
	h.Refusal.Status = cmp.Or(h.Refusal.Status, 429)
	if len(h.Flaky.Kinds) == 0 {
		h.Flaky.Kinds = []string{"500", "503", kindReset}
	}
	return h
}

// place is a host, and how far its port is above the site's. If that is above zero, the host has the address of the one
// before it.
type place struct {
	Host

	port int
}

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
