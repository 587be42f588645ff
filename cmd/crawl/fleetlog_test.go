package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// arrival is a request as its host has seen it.
type arrival struct {
	at   time.Time
	from string // the process, by its User-Agent
	path string
}

func (a arrival) robots() bool { return a.path == "/robots.txt" }

// requestLog has all requests of a crawl, in the order in which each host got them.
type requestLog struct {
	mu    sync.Mutex
	hosts map[int][]arrival
}

func (a *requestLog) note(host int, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hosts == nil {
		a.hosts = make(map[int][]arrival)
	}
	a.hosts[host] = append(a.hosts[host], arrival{time.Now(), r.UserAgent(), r.URL.Path})
}

// anyOwner is who was the last to ask a host, any of those that were asked a moment ago.
func (a *requestLog) anyOwner() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range a.hosts { // in any order
		if last := list[len(list)-1]; time.Since(last.at) < fleetLease() {
			return last.from
		}
	}
	return ""
}

// handover is that a host was asked by one process and then by another.
type handover struct {
	host     int
	from, to string
	at       time.Time     // of the first request of the other
	gap      time.Duration // between the last request of the one and that
	before   float64       // requests per second of the one in its last seconds
	after    float64       // of the other in its first
}

// rateOver is the time over which the pace of an owner is taken.
const rateOver = 3 * time.Second

// handovers are all that there were.
func (a *requestLog) handovers() (all []handover) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for host, list := range a.hosts {
		for i := 1; i < len(list); i++ {
			last, first := list[i-1], list[i]
			if last.from == first.from {
				continue
			}
			h := handover{host: host, from: last.from, to: first.from, at: first.at, gap: first.at.Sub(last.at)}
			for j := i - 1; j >= 0 && list[j].from == last.from && last.at.Sub(list[j].at) < rateOver; j-- {
				h.before++
			}
			for j := i; j < len(list) && list[j].from == first.from && list[j].at.Sub(first.at) < rateOver; j++ {
				h.after++
			}
			h.before, h.after = h.before/rateOver.Seconds(), h.after/rateOver.Seconds()
			all = append(all, h)
		}
	}
	return all
}

// around is what a host was asked just before and after an instant, for who looks for a cause.
func (a *requestLog) around(host int, at time.Time) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, r := range a.hosts[host] {
		if since := r.at.Sub(at); since.Abs() < 2*time.Second {
			fmt.Fprintf(&b, "\n%v %s %s", since.Round(time.Millisecond), r.from, r.path)
		}
	}
	return b.String()
}

// jitter is by how much pages that one process asked of a host came closer together than
// the host is to be asked, at most: what is lost on the way and won back by the next.
func (a *requestLog) jitter(apart func(host int) time.Duration) (most time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for host, list := range a.hosts {
		for i := 1; i < len(list); i++ {
			last, next := list[i-1], list[i]
			if last.from == next.from && !last.robots() && !next.robots() {
				most = max(most, apart(host)-next.at.Sub(last.at))
			}
		}
	}
	return most
}

// recoveries are how long after the death of a process each of its hosts was asked by another.
func (a *requestLog) recoveries(dead string, died time.Time) (spans []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range a.hosts {
		i := slices.IndexFunc(list, func(r arrival) bool { return r.at.After(died) && r.from != dead })
		if i > 0 && list[i-1].from == dead {
			spans = append(spans, list[i].at.Sub(died))
		}
	}
	slices.Sort(spans)
	return spans
}

// spread is a distribution in a line.
func spread(spans []time.Duration) string {
	if len(spans) == 0 {
		return "none"
	}
	slices.Sort(spans)
	var b strings.Builder
	for _, q := range []float64{0, 0.5, 0.9, 1} {
		fmt.Fprintf(&b, "%.0f%% %v  ", 100*q, spans[int(q*float64(len(spans)-1))].Round(time.Millisecond))
	}
	return fmt.Sprintf("%sof %d", b.String(), len(spans))
}

func gaps(all []handover) (spans []time.Duration) {
	for _, h := range all {
		spans = append(spans, h.gap)
	}
	return spans
}

// pace is how many requests came in each second.
func (a *requestLog) pace(begun time.Time) (n []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range a.hosts {
		for _, r := range list {
			second := int(r.at.Sub(begun) / time.Second)
			for len(n) <= second {
				n = append(n, 0)
			}
			n[second]++
		}
	}
	return n
}

// ends are the instants of the first request and the last.
func (a *requestLog) ends() (first, last time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range a.hosts {
		if at := list[0].at; first.IsZero() || at.Before(first) {
			first = at
		}
		if at := list[len(list)-1].at; at.After(last) {
			last = at
		}
	}
	return first, last
}

// byProcess is how many pages each process was served, by its name.
func (a *requestLog) byProcess() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := make(map[string]int)
	for _, list := range a.hosts {
		for _, r := range list {
			if !r.robots() {
				n[r.from]++
			}
		}
	}
	return n
}
