// Package fleet is a model of many crawl processes with one frontier: how long they take for a web, what limits them,
// and the load on their Redis. docs/explanation/scale.md describes it.
//
// [Run] computes it exactly, event by event. It leaves out failures, retries, robots.txt and sitemaps, hosts found
// late, learning of rates, and different page sizes. The load on Redis follows from the figures in [Config].
package fleet

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Config is a web, the processes, and the costs.
type Config struct {
	Processes int     // number of processes, 1 to 100,000
	Owned     int     // hosts that a process owns at a time, 1 or more
	Capacity  float64 // pages per second that one process can do; like all floats below, above 0

	Hosts      int     // number of hosts, 1 to 10,000,000
	Exponent   float64 // of the power law: the host of rank k has pages in proportion to k to the power of -Exponent
	Pages      float64 // pages of all hosts together
	MaxPerHost float64 // most pages taken from a host; zero means all
	Rates      []Rate  // the rates of hosts, and the share of hosts with each

	Known       float64 // URLs known at the end, per page that is visited
	QueuedBytes float64 // bytes of Redis for a queued URL
	Commands    float64 // commands of Redis per page
	PageBytes   float64 // bytes transferred per page

	// Seed is the seed for the rates and the order of hosts. Any value will do.
	Seed uint64
}

// Rate is a rate that a share of all hosts tolerates.
type Rate struct {
	PerSecond float64 // requests per second
	Share     float64 // share of all hosts; the shares need not add up to 1
}

// Default returns the web of docs/explanation/scale.md and one process. The size of a queued URL was measured for one
// of 64 characters. The rates are an assumption: most hosts get one request per second, the crawler's first rate; some
// require ten seconds between two requests, and some tolerate more.
func Default() Config {
	return Config{
		Processes: 1, Owned: 4096, Capacity: 1000, Hosts: 1_000_000, Exponent: 1, Pages: 1e9, Known: 5,
		Rates:       []Rate{{0.1, 0.10}, {0.5, 0.15}, {1, 0.45}, {5, 0.25}, {10, 0.05}},
		QueuedBytes: 75, Commands: 0.5, PageBytes: 25_000, Seed: 1,
	}
}

func (c *Config) validate() error {
	for _, v := range []float64{c.Capacity, c.Exponent, c.Pages, cmp.Or(c.MaxPerHost, 1), c.Known, c.QueuedBytes, c.Commands, c.PageBytes} {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("a figure of the model is %v: it has to be above 0", v)
		}
	}
	switch {
	case c.Processes < 1 || c.Processes > 100_000:
		return fmt.Errorf("processes is %d: give 1 to 100000", c.Processes)
	case c.Hosts < 1 || c.Hosts > 10_000_000:
		return fmt.Errorf("hosts is %d: give 1 to 10000000", c.Hosts)
	case c.Owned < 1:
		return fmt.Errorf("owned is %d: give 1 or more", c.Owned)
	}
	return nil
}

// Result is the result of a crawl by the fleet.
type Result struct {
	Processes int     `json:"processes"`
	Pages     float64 `json:"pages"`
	// Seconds is the time until the last page, and Half, Most and Nearly are those until 50, 90 and 99 % of the pages.
	Seconds, Half, Most, Nearly float64
	Rate                        float64 // pages per second until 90 % of them are fetched
	// Busy is the used share of what all processes can do, until then. Near 1 the processes are the limit; far below,
	// politeness is.
	Busy    float64
	Longest float64 // seconds that the slowest host takes at its own rate: no fleet is faster
	// Commands is commands of Redis per second, at Rate. Servers is how many servers these and the memory need, each
	// with 50,000 commands per second and half of 64 GiB.
	Commands, Servers float64
	Memory            float64 // bytes in Redis at the end: known URLs, URLs still queued, and hosts
	Line              float64 // bytes per second of one process, at Rate
}

// The costs of Redis, as measured.
const (
	seenBytes         = 9 // per known URL
	hostBytes         = 300
	commandsPerSecond = 50_000       // per server
	serverMemory      = 64 << 30 / 2 // per server: a usual size, half of which is for a fork
)

type host struct{ pages, rate float64 }

func (c *Config) web() []host {
	rng := rand.New(rand.NewPCG(c.Seed, 0x5ca1ab1e))
	var norm, shares float64
	for k := range c.Hosts {
		norm += math.Pow(float64(k+1), -c.Exponent)
	}
	for _, r := range c.Rates {
		shares += r.Share
	}
	hosts := make([]host, c.Hosts)
	for k := range hosts {
		pages := c.Pages * math.Pow(float64(k+1), -c.Exponent) / norm
		hosts[k].pages = min(max(pages, 1), cmp.Or(c.MaxPerHost, math.Inf(1)))
		at := rng.Float64() * shares
		for _, r := range c.Rates {
			hosts[k].rate = r.PerSecond
			if at -= r.Share; at < 0 {
				break
			}
		}
	}
	rng.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	return hosts
}

// Run simulates a crawl. Its error says which field of c is wrong.
func Run(c Config) (Result, error) {
	if err := c.validate(); err != nil {
		return Result{}, err
	}
	hosts := c.web()
	res := Result{Processes: c.Processes}
	for _, h := range hosts {
		res.Pages += h.pages
		res.Longest = max(res.Longest, h.pages/h.rate)
	}
	f := play{cfg: &c, hosts: hosts, total: res.Pages, res: &res}
	f.run()
	res.Rate = 0.9 * res.Pages / res.Most
	res.Busy = res.Rate / (c.Capacity * float64(c.Processes))
	res.Commands = res.Rate * c.Commands
	known := res.Pages * c.Known
	res.Memory = known*seenBytes + (known-res.Pages)*c.QueuedBytes + float64(c.Hosts)*hostBytes
	res.Servers = math.Ceil(max(res.Commands/commandsPerSecond, res.Memory/serverMemory))
	res.Line = res.Rate / float64(c.Processes) * c.PageBytes
	return res, nil
}

// process has a virtual clock, which runs slower while the process's hosts demand more than its capacity, so that each
// host takes pages/rate of virtual time.
type process struct {
	at, virtual float64 // the clocks at the last change
	demand      float64 // of its hosts, in requests per second
	owned       []owned // the one that ends first is the last
}

type owned struct {
	end  float64 // by the virtual clock
	rate float64
}

func (p *process) speed(capacity float64) float64 {
	if p.demand <= capacity {
		return 1
	}
	return capacity / p.demand
}

func (p *process) next(capacity float64) float64 {
	if len(p.owned) == 0 {
		return math.Inf(1)
	}
	return p.at + (p.owned[len(p.owned)-1].end-p.virtual)/p.speed(capacity)
}

type play struct {
	cfg   *Config
	hosts []host // hosts that no process has had yet
	procs []*process
	total float64
	res   *Result

	at, done, rate float64 // the present time, pages done, and pages per second
}

func (f *play) run() {
	f.procs = make([]*process, f.cfg.Processes)
	for i := range f.procs {
		f.procs[i] = new(process)
	}
	// In turns, one host at a time, as real processes would take them.
	for round := 0; round < f.cfg.Owned && len(f.hosts) > 0; round++ {
		for _, p := range f.procs {
			f.give(p)
		}
	}
	for _, p := range f.procs {
		f.rate += min(p.demand, f.cfg.Capacity)
	}
	h := processHeap{f.procs, f.cfg.Capacity}
	heap.Init(&h)
	for {
		p := f.procs[0]
		at := p.next(f.cfg.Capacity)
		if math.IsInf(at, 1) {
			f.res.Seconds = f.at
			return
		}
		f.pass(at)
		f.rate -= min(p.demand, f.cfg.Capacity)
		p.virtual += (at - p.at) * p.speed(f.cfg.Capacity)
		p.at = at
		last := len(p.owned) - 1
		p.demand -= p.owned[last].rate
		if p.owned = p.owned[:last]; last == 0 {
			p.demand = 0 // no rounding error remains
		}
		f.give(p)
		f.rate += min(p.demand, f.cfg.Capacity)
		heap.Fix(&h, 0)
	}
}

func (f *play) give(p *process) {
	if len(f.hosts) == 0 {
		return
	}
	h := f.hosts[0]
	f.hosts = f.hosts[1:]
	p.demand += h.rate
	end := p.virtual + h.pages/h.rate
	i, _ := slices.BinarySearchFunc(p.owned, end, func(o owned, end float64) int { return cmp.Compare(end, o.end) })
	p.owned = slices.Insert(p.owned, i, owned{end, h.rate})
}

func (f *play) pass(to float64) {
	for _, mark := range []struct {
		share float64
		at    *float64
	}{{0.5, &f.res.Half}, {0.9, &f.res.Most}, {0.99, &f.res.Nearly}} {
		if want := mark.share * f.total; *mark.at == 0 && f.rate > 0 && f.done+f.rate*(to-f.at) >= want {
			*mark.at = f.at + (want-f.done)/f.rate
		}
	}
	f.done += f.rate * (to - f.at)
	f.at = to
}

type processHeap struct {
	all      []*process
	capacity float64
}

func (h *processHeap) Len() int { return len(h.all) }
func (h *processHeap) Less(i, j int) bool {
	return h.all[i].next(h.capacity) < h.all[j].next(h.capacity)
}
func (h *processHeap) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }

// Push implements [heap.Interface]; the number of processes never changes.
func (h *processHeap) Push(any) {}

func (h *processHeap) Pop() any { return nil }
