package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// sample is what one run of a candidate has shown.
type sample struct {
	ns     float64 // from the first request to the last, or of processors; by their number
	allocs float64 // a request
	trips  float64 // to the store, a request; 0 if nobody counts them
}

// load is a number of senders that ask one handler.
type load struct {
	senders []func(requests int) error // each sends so many, one after another
	procs   int                        // GOMAXPROCS meanwhile; 0 leaves it
	cpu     bool                       // the time is that of processors
	trips   func() uint64              // of the candidate so far; nil if nobody counts them
	end     func()
}

func (l *load) close() {
	if l.end != nil {
		l.end()
	}
}

// batch is how many requests one sends between two looks at the clock: so many that
// the look costs nothing, and so few that even one over Redis ends in time.
const batch = 32

// run has all senders ask for so long, at least a batch each, and returns how many requests there were.
func (l *load) run(d time.Duration) (requests int64, took time.Duration, err error) {
	var total atomic.Int64
	errs := make([]error, len(l.senders))
	var group sync.WaitGroup
	clk := clock.System()
	begun := clk.Now()
	for i, send := range l.senders {
		group.Go(func() {
			n := int64(0)
			for more := true; more; more = errs[i] == nil && clk.Since(begun) < d {
				errs[i] = send(batch)
				n += batch
			}
			total.Add(n)
		})
	}
	group.Wait()
	took = clk.Since(begun)
	for _, e := range errs {
		err = cmp.Or(err, e) // one tells enough
	}
	return total.Load(), took, err
}

// measure is run, in numbers.
func (l *load) measure(d time.Duration) (sample, error) {
	if l.procs > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(l.procs))
	}
	var before, after runtime.MemStats
	runtime.GC() // what the one before has left is not this one's
	runtime.ReadMemStats(&before)
	trips := l.count()
	requests, took, err := l.timed(d)
	trips = l.count() - trips
	runtime.ReadMemStats(&after)
	n := float64(max(1, requests))
	return sample{float64(took.Nanoseconds()) / n, float64(after.Mallocs-before.Mallocs) / n, float64(trips) / n}, err
}

// timed is run with the time that counts.
func (l *load) timed(d time.Duration) (requests int64, took time.Duration, err error) {
	if !l.cpu {
		return l.run(d)
	}
	begun, err := cpuTime()
	if err != nil {
		return 0, 0, err
	}
	requests, _, runErr := l.run(d)
	ended, err := cpuTime()
	return requests, ended - begun, errors.Join(runErr, err)
}

func (l *load) count() uint64 {
	if l.trips == nil {
		return 0
	}
	return l.trips()
}

// answer is a ResponseWriter that keeps headers and nothing else.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) Write(p []byte) (int, error) { return len(p), nil }

func (a *answer) WriteHeader(status int) { a.status = status }

// keyHeader is by what requests are counted.
const keyHeader = "X-Api-Key"

// client is who asks: by the header, and by the address of the connection.
type client struct{ header, address string }

func clients(n int) []client {
	all := make([]client, n)
	for i := range all {
		all[i] = client{
			fmt.Sprintf("0123456789abcdef-%06d", i),
			fmt.Sprintf("10.%d.%d.%d:4711", i>>16&255, i>>8&255, i&255),
		}
	}
	return all
}

const target = "/api/users/1"

// stride is a prime, so that keys come in an order that no cache foresees, and all of them.
const stride = 7919

// inProcess is a load without connections: as many goroutines as processors, each of
// which calls the handler. What counts is the time of processors, in which nothing that
// others do on the machine is contained.
func inProcess(h handler, width, keys int) (load, error) {
	l := load{procs: width, cpu: true, trips: h.trips}
	for range width {
		l.senders = append(l.senders, caller(h, keys))
	}
	return l, nil
}

// manyAtOnce is a load without connections of so many goroutines, which mostly wait.
func manyAtOnce(h handler, width, keys int) (load, error) {
	l, err := inProcess(h, width, keys)
	l.procs, l.cpu = 0, false
	return l, err
}

// caller calls the handler with one request, each time as if another client had sent it:
// all but who that is has just been read by a server, and is at hand.
func caller(h handler, keys int) func(int) error {
	all := clients(keys)
	at := rand.IntN(keys)
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	name := []string{""}
	r.Header[keyHeader] = name
	w := &answer{header: http.Header{}}
	return func(n int) error {
		for range n {
			at = (at + stride) % keys
			name[0], r.RemoteAddr = all[at].header, all[at].address
			clear(w.header)
			w.status = http.StatusOK
			h.ServeHTTP(w, r)
			if w.status != http.StatusOK {
				return fmt.Errorf("it answers with %d", w.status)
			}
		}
		return nil
	}
}
