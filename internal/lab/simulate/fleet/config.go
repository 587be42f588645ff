package fleet

import (
	"cmp"
	"fmt"
	"math"
)

// Config is a web, the processes and what things cost. The zero Config is the web of
// docs/explanation/scale.md and one process.
type Config struct {
	// Processes is how many there are, 1 to 100,000. Zero means 1.
	Processes int
	// Owned is how many hosts a process owns at a time. Zero means 4096.
	Owned int
	// Capacity is what one process can do, in pages per second: the least of what its
	// processors and its line allow. Zero means 1000.
	Capacity float64

	// Hosts is how many hosts there are, 1 to 10,000,000. Zero means 1,000,000.
	Hosts int
	// Exponent is that of the power law: the host of rank k has pages as k to the minus
	// Exponent. Zero means 1.
	Exponent float64
	// Pages is how many pages there are, of all hosts. Zero means 1,000,000,000.
	Pages float64
	// MaxPerHost is how many pages of a host are taken at most. Zero means all.
	MaxPerHost float64
	// Rates are the rates of hosts, in requests per second, and how much of the hosts has
	// each. Nil means DefaultRates.
	Rates []Rate

	// Known is how many URLs are known for each page that is visited, at the end. Zero means 5.
	Known float64
	// SeenBytes and QueuedBytes are the memory that Redis takes for each URL known, and for each
	// that is queued beside that. Zero means 9 and 75, as measured with URLs of 64 characters.
	SeenBytes, QueuedBytes float64
	// HostBytes is what it takes for a host. Zero means 300.
	HostBytes float64
	// Commands is how many commands of Redis a page takes, and PerSecond how many one server
	// does. Zero means 0.5 and 50,000.
	Commands, PerSecond float64
	// PageBytes is what a page takes on the line. Zero means 25,000.
	PageBytes float64

	// Seed draws the rates and the order of hosts. Any value will do.
	Seed uint64
}

// Rate is what a part of all hosts tolerates.
type Rate struct {
	PerSecond float64 // requests per second
	Share     float64 // of all hosts; shares need not add up to 1
}

// DefaultRates are an assumption: most hosts are asked once a second, as a host is at first,
// some ask for ten seconds between two requests, some bear more.
func DefaultRates() []Rate {
	return []Rate{{0.1, 0.10}, {0.5, 0.15}, {1, 0.45}, {5, 0.25}, {10, 0.05}}
}

func (c Config) withDefaults() (Config, error) {
	c.Processes, c.Owned, c.Hosts = cmp.Or(c.Processes, 1), cmp.Or(c.Owned, 4096), cmp.Or(c.Hosts, 1_000_000)
	for _, f := range []struct {
		v *float64
		d float64
	}{
		{&c.Capacity, 1000},
		{&c.Exponent, 1},
		{&c.Pages, 1e9},
		{&c.MaxPerHost, math.MaxFloat64},
		{&c.Known, 5},
		{&c.SeenBytes, 9},
		{&c.QueuedBytes, 75},
		{&c.HostBytes, 300},
		{&c.Commands, 0.5},
		{&c.PerSecond, 50_000},
		{&c.PageBytes, 25_000},
	} {
		*f.v = cmp.Or(*f.v, f.d)
		if !(*f.v > 0) || math.IsInf(*f.v, 0) {
			return c, fmt.Errorf("fleet: a figure of the model is %v: it has to be above 0", *f.v)
		}
	}
	if c.Rates == nil {
		c.Rates = DefaultRates()
	}
	var sum float64
	for _, r := range c.Rates {
		if !(r.PerSecond > 0) || r.Share < 0 {
			return c, fmt.Errorf("fleet: Rates: %v/s for a share of %v: the rate has to be above 0", r.PerSecond, r.Share)
		}
		sum += r.Share
	}
	switch {
	case sum <= 0:
		return c, fmt.Errorf("fleet: Rates: the shares add up to nothing")
	case c.Processes < 1 || c.Processes > 100_000:
		return c, fmt.Errorf("fleet: Processes is %d: give 1 to 100000", c.Processes)
	case c.Hosts < 1 || c.Hosts > 10_000_000:
		return c, fmt.Errorf("fleet: Hosts is %d: give 1 to 10000000", c.Hosts)
	case c.Owned < 1:
		return c, fmt.Errorf("fleet: Owned is %d: give 1 or more", c.Owned)
	}
	return c, nil
}
