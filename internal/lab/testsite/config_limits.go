package testsite

import "time"

// Limiter is one of the limits of an address, by kind:
//
//	leaky-bucket        rate, burst, delay    nginx's limit_req; leaks at rate, bears burst more
//	token-bucket        rate, burst           holds burst tokens, refilled at rate
//	fixed-window        requests, window      windows at multiples of their length since 1970
//	sliding-window      requests, window      counts this window and what is in view of the last
//	sliding-window-log  requests, window      exact in every window, wherever it begins
//	concurrency         concurrent            open at a time
//
// A field that its kind does not have is refused.
type Limiter struct {
	// Kind is one of the above. Empty is refused.
	Kind string `yaml:"kind,omitempty"`
	// Rate is requests per second, 0.001 to one million. Zero is refused for a bucket.
	Rate float64 `yaml:"rate,omitempty"`
	// Burst is, of a leaky bucket, how many requests may come ahead of Rate; of a token
	// bucket, how many tokens it holds; 0 to one million. Zero means none ahead, or a
	// second's worth of tokens and at least one.
	Burst int `yaml:"burst,omitempty"`
	// Delay has a leaky bucket answer the requests of its burst late, in the distance of
	// Rate, as limit_req does without nodelay. False means at once.
	Delay bool `yaml:"delay,omitempty"`
	// Requests is how many requests fit into one Window, 1 to one million. Zero is
	// refused for a window.
	Requests int `yaml:"requests,omitempty"`
	// Window is the length of a window, 1ms to 24h in whole microseconds. Zero is refused
	// for a window.
	Window time.Duration `yaml:"window,omitempty"`
	// Concurrent is how many requests may be open at a time, 1 to one million. Zero is
	// refused for concurrency.
	Concurrent int `yaml:"concurrent,omitempty"`
}

// Load is how latency grows with what is asked for at the same time.
type Load struct {
	// Rate is what one worker gets done, in requests per second, 0.001 to one million:
	// one after another, each in a time drawn from the exponential distribution. With
	// arrivals at random it is the M/M/1 queue, in which the mean time is 1/(Rate−λ) at λ
	// arrivals per second (Kleinrock, Queueing Systems I, 1975, section 3.2). Zero means
	// that nobody waits for a worker.
	Rate float64 `yaml:"rate,omitempty"`
	// MaxWait is for how long a request may have to wait for the worker, 0 to 10m; one
	// that would wait longer is refused. Zero means 30s.
	MaxWait time.Duration `yaml:"max_wait,omitempty"`
	// Workers is the knee: up to so many open requests take their Latency, and beyond it
	// each takes in proportion to how many are open, as on processors that are shared
	// evenly (Kleinrock, Time-shared systems, 1967), 0 to one million. Zero means no knee.
	Workers int `yaml:"workers,omitempty"`
}

// Day is a capacity that changes: buckets, windows and Load.Rate run at a share of their
// speed, as if by a clock that goes slower. Concurrency and Workers stay. A quarter of the
// speed makes 4/s into 1/s, and a window last four times as long.
type Day struct {
	// Length is that of a day, 1s to 1000h; days follow each other from New on. Zero means
	// 24h if Low or Table is set, and no change if not.
	Length time.Duration `yaml:"length,omitempty"`
	// Low is the share of the speed that is left in the middle of a day: a cosine that
	// begins at 1, goes down to Low and comes back, in 96 steps (a quarter of an hour each,
	// of 24h), 0.01 to 1. Zero means that Table says it all.
	Low float64 `yaml:"low,omitempty"`
	// Table is a timetable instead of Low: the speed from each time of day on, in order,
	// at most 1000. Before the first it is 1. Empty means none.
	Table []Hour `yaml:"table,omitempty"`
}

// Hour is an entry of a timetable.
type Hour struct {
	// At is the time of day, 0 to less than a day. Zero means its beginning.
	At time.Duration `yaml:"at,omitempty"`
	// Speed is the share of the speed from then on, 0.01 to 100. Zero is refused.
	Speed float64 `yaml:"speed,omitempty"`
}

// Ban shuts a client out who has been refused too often. All clients count as one: what is
// measured is one crawler at a time.
type Ban struct {
	// After is how many refusals by a limit bring a ban, 0 to 10000. Zero means none.
	After int `yaml:"after,omitempty"`
	// Within is the time in which these refusals must come, 0 to 24h. Zero means For.
	Within time.Duration `yaml:"within,omitempty"`
	// For is how long a ban lasts, up to 24h; requests during it do not prolong it. Zero
	// is refused if After is set.
	For time.Duration `yaml:"for,omitempty"`
	// Mode is status or drop, which closes the connection. Empty means status.
	Mode string `yaml:"mode,omitempty"`
	// Status is answered in mode status, 400 to 599, without Retry-After. Zero means 403.
	Status int `yaml:"status,omitempty"`
}

// defaultMaxWait is longer than people and most clients wait for a page, so that by default
// it is latency that tells, and not a refusal.
const defaultMaxWait = 30 * time.Second

const defaultDay = 24 * time.Hour

// capacity is how many tokens a token bucket holds.
func (l *Limiter) capacity() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, int(l.Rate))
}

// withDefaults is the day as it is run.
func (d Day) withDefaults() Day {
	if d.Length == 0 && (d.Low > 0 || len(d.Table) > 0) {
		d.Length = defaultDay
	}
	return d
}
