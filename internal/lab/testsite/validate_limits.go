package testsite

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// limited reports whether anything is limited, so that there is something to change with
// the day, to be banned for and to tell of.
func (h *Host) limited() bool { return h.Limit != (Limit{}) || len(h.Limits) > 0 || h.Load != (Load{}) }

// checkAddress refuses what would be ignored for want of another field.
func (h *Host) checkAddress(path string) error {
	need := func(given bool, field, what string) error {
		if !given || h.limited() {
			return nil
		}
		return fmt.Errorf("%s.%s: it has no meaning without %s; set one, such as %s.limits: [{kind: token-bucket, rate: 5}]", path, field, what, path)
	}
	errs := []error{
		need(h.Ban.After > 0, "ban", "a limit that refuses"),
		need(h.Day.Length > 0 || h.Day.Low > 0 || len(h.Day.Table) > 0, "day", "a limit that changes"),
	}
	if h.OneAddress && h.Count < 2 {
		errs = append(errs, fmt.Errorf("%s.one_address: it has no meaning with one host; set %s.count to 2 or more", path, path))
	}
	quota := slices.ContainsFunc(h.Limits, func(l Limiter) bool { return l.Kind != kindSlots })
	if h.Refusal.tells() && !quota {
		errs = append(errs, fmt.Errorf("%s.refusal.headers: there is no quota to tell; list one in %s.limits", path, path))
	}
	return errors.Join(errs...)
}

// limiterFields says which fields a kind has, and which of them it needs.
var limiterFields = map[string]struct{ has, needs []string }{
	kindLeaky:   {[]string{"rate", "burst", "delay"}, []string{"rate"}},
	kindToken:   {[]string{"rate", "burst"}, []string{"rate"}},
	kindFixed:   {[]string{"requests", "window"}, []string{"requests", "window"}},
	kindSliding: {[]string{"requests", "window"}, []string{"requests", "window"}},
	kindLog:     {[]string{"requests", "window"}, []string{"requests", "window"}},
	kindSlots:   {[]string{"concurrent"}, []string{"concurrent"}},
}

func checkLimits(path string, limits []Limiter) error {
	errs := []error{within(path+" (listed)", len(limits), 0, maxLimits)}
	for i := range limits {
		errs = append(errs, limits[i].validate(fmt.Sprintf("%s[%d]", path, i)))
	}
	return errors.Join(errs...)
}

// validate has a floor for the rate for the reason that Limit has one, and for the window
// because nobody sees a shorter one over a network.
func (l *Limiter) validate(path string) error {
	fields, known := limiterFields[l.Kind]
	if !known {
		return oneOf(path+".kind", l.Kind, kindLeaky, kindToken, kindFixed, kindSliding, kindLog, kindSlots)
	}
	errs := []error{
		within(path+".rate", l.Rate, 0, 1e6),
		within(path+".burst", l.Burst, 0, maxItems),
		within(path+".requests", l.Requests, 0, maxItems),
		within(path+".window", l.Window, 0, maxWait),
		within(path+".concurrent", l.Concurrent, 0, maxItems),
	}
	if l.Rate > 0 && l.Rate < 1e-3 {
		errs = append(errs, fmt.Errorf("%s.rate: %v is out of range; use 0.001 to 1000000", path, l.Rate))
	}
	if l.Window > 0 && (l.Window < time.Millisecond || l.Window%time.Microsecond != 0) {
		errs = append(errs, fmt.Errorf("%s.window: %v is out of range; use whole microseconds from 1ms to 24h", path, l.Window))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"rate", l.Rate != 0}, {"burst", l.Burst != 0}, {"delay", l.Delay}, {"requests", l.Requests != 0}, {"window", l.Window != 0}, {"concurrent", l.Concurrent != 0}} {
		switch {
		case f.set && !slices.Contains(fields.has, f.name):
			errs = append(errs, fmt.Errorf("%s.%s: a %s has none; remove it", path, f.name, l.Kind))
		case !f.set && slices.Contains(fields.needs, f.name):
			errs = append(errs, fmt.Errorf("%s.%s: a %s needs one; set it", path, f.name, l.Kind))
		}
	}
	return errors.Join(errs...)
}

func (l *Load) validate(path string) error {
	err := errors.Join(
		within(path+".rate", l.Rate, 0, 1e6),
		within(path+".max_wait", l.MaxWait, 0, maxLatency),
		within(path+".workers", l.Workers, 0, maxItems),
	)
	switch {
	case err != nil:
		return err
	case l.Rate > 0 && l.Rate < 1e-3:
		return fmt.Errorf("%s.rate: %v is out of range; use 0.001 to 1000000, or 0 for no queue", path, l.Rate)
	case l.MaxWait > 0 && l.Rate == 0:
		return fmt.Errorf("%s.max_wait: it has no meaning without a queue; set %s.rate", path, path)
	}
	return nil
}

// maxDay bounds days so that a whole number of them, and the clocks that go a hundred times
// as fast, stay far from the end of a Duration in any run.
const maxDay = 1000 * time.Hour

// Speeds outside of these would make limits of 1/s into prohibitions, or into none.
const minSpeed, maxSpeed = 0.01, 100

func (d *Day) validate(path string) error {
	errs := []error{
		within(path+".length", d.Length, 0, maxDay),
		within(path+".low", d.Low, 0, 1),
		within(path+".table (listed)", len(d.Table), 0, maxSteps),
	}
	if d.Length > 0 && d.Length < time.Second {
		errs = append(errs, fmt.Errorf("%s.length: %v is out of range; use 1s to %v", path, d.Length, maxDay))
	}
	if d.Low > 0 && d.Low < minSpeed {
		errs = append(errs, fmt.Errorf("%s.low: %v is out of range; use %v to 1", path, d.Low, minSpeed))
	}
	switch {
	case d.Low > 0 && len(d.Table) > 0:
		errs = append(errs, fmt.Errorf("%s: low and table both say how the day goes; keep one", path))
	case d.Length > 0 && d.Low == 0 && len(d.Table) == 0:
		errs = append(errs, fmt.Errorf("%s.length: it has no meaning by itself; set %s.low or %s.table", path, path, path))
	}
	length, last := d.withDefaults().Length, time.Duration(-1)
	for i, h := range d.Table {
		at := fmt.Sprintf("%s.table[%d]", path, i)
		errs = append(errs, within(at+".speed", h.Speed, minSpeed, maxSpeed))
		if h.At <= last || h.At < 0 || h.At >= length {
			errs = append(errs, fmt.Errorf("%s.at: %v is not within a day of %v, or not after the entry before it; list them in order", at, h.At, length))
		}
		last = h.At
	}
	return errors.Join(errs...)
}

// maxBanAfter bounds the refusals that are remembered.
const maxBanAfter = 10_000

func (b *Ban) validate(path string) error {
	err := errors.Join(
		within(path+".after", b.After, 0, maxBanAfter),
		within(path+".within", b.Within, 0, maxWait),
		within(path+".for", b.For, 0, maxWait),
		oneOf(path+".mode", b.Mode, "", modeStatus, modeDrop),
		status(path+".status", b.Status),
	)
	switch {
	case err != nil:
		return err
	case (b.After > 0) != (b.For > 0):
		return fmt.Errorf("%s: after and for go together; set both, such as after: 10, for: 5m", path)
	case b.After == 0 && (b.Within > 0 || b.Mode != "" || b.Status != 0):
		return fmt.Errorf("%s: it has no meaning without after; set %s.after and %s.for", path, path, path)
	case b.Mode == modeDrop && b.Status != 0:
		return fmt.Errorf("%s.status: it has no meaning in mode drop; remove one of them", path)
	}
	return nil
}

// status accepts what says that something is wrong, and zero for the default.
func status(path string, code int) error {
	if code == 0 {
		return nil
	}
	return within(path, code, 400, 599)
}
