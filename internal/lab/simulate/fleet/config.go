// Package fleet is a model of many crawl processes on one frontier: how long they take for a
// web, what limits them, and what load their Redis has. docs/explanation/scale.md describes it.
//
// [Run] plays it exactly, event by event. It leaves out failures, retries, robots.txt and sitemaps, hosts
// found late, learning of rates, and differing page sizes. Redis is counted by the figures in [Config].
package fleet

import (
	"cmp"
	"fmt"
	"math"
)

// Config is a web, the processes and what things cost. The zero Config is the web of
// docs/explanation/scale.md and one process.
type Config struct {
	Processes int     // how many there are, 1 to 100,000. Zero means 1.
	Owned     int     // how many hosts a process owns at a time. Zero means 4096.
	Capacity  float64 // what one process can do, in pages per second. Zero means 1000.

	Hosts int // how many hosts there are, 1 to 10,000,000. Zero means 1,000,000.
	// Exponent is that of the power law: the host of rank k has pages as k to the minus
	// Exponent. Zero means 1.
	Exponent   float64
	Pages      float64 // how many pages there are, of all hosts. Zero means 1,000,000,000.
	MaxPerHost float64 // how many pages of a host are taken at most. Zero means all.
	Rates      []Rate  // the rates of hosts and the share of hosts that has each. Nil means DefaultRates.

	Known float64 // how many URLs are known for each page that is visited, at the end. Zero means 5.
	// QueuedBytes is the memory that Redis takes for a queued URL. Zero means 75, as measured
	// with URLs of 64 characters.
	QueuedBytes float64
	Commands    float64 // how many commands of Redis a page takes. Zero means 0.5.
	PageBytes   float64 // what a page takes on the line. Zero means 25,000.

	// Seed draws the rates and the order of hosts. Any value will do.
	Seed uint64
}

// Rate is what a part of all hosts tolerates.
type Rate struct {
	PerSecond float64 // requests per second
	Share     float64 // of all hosts; shares need not add up to 1
}

// DefaultRates are an assumption: most hosts get a request a second, the crawler's first rate,
// some ask for ten seconds between two requests, some tolerate more.
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
		{&c.QueuedBytes, 75},
		{&c.Commands, 0.5},
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
