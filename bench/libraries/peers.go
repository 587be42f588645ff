package main

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/sony/gobreaker/v2"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"
)

// endless is a rate that no benchmark exhausts: what is measured is the grant.
const endless = 1_000_000_000

// parallel runs f in as many goroutines as there are processors.
func parallel(b *testing.B, f func()) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f()
		}
	})
}

func xtimeAllow(b *testing.B) {
	l := rate.NewLimiter(endless, endless)
	parallel(b, func() { l.Allow() })
}

func xtimeWait(b *testing.B) {
	l := rate.NewLimiter(endless, endless)
	ctx := context.Background()
	parallel(b, func() { must(l.Wait(ctx)) })
}

func uberTake(b *testing.B) {
	l := uber.New(endless)
	parallel(b, func() { l.Take() })
}

func sethvargoTake(b *testing.B) {
	s, err := memorystore.New(&memorystore.Config{Tokens: endless, Interval: time.Hour})
	must(err)
	ctx := context.Background()
	defer func() { must(s.Close(ctx)) }()
	parallel(b, func() {
		_, _, _, _, err := s.Take(ctx, "host.example.com")
		must(err)
	})
}

func failsafeBursty(b *testing.B) {
	l := ratelimiter.NewBursty[any](endless, time.Hour)
	parallel(b, func() { l.TryAcquirePermit() })
}

func failsafeSmooth(b *testing.B) {
	l := ratelimiter.NewSmooth[any](endless, time.Second)
	parallel(b, func() { l.TryAcquirePermit() })
}

func failsafeBulkhead(b *testing.B) {
	l := bulkhead.New[any](1000)
	parallel(b, func() {
		if l.TryAcquirePermit() {
			l.ReleasePermit()
		}
	})
}

// manyKeys are asked for in turn.
const manyKeys = 100_000

func keys() []string {
	names := make([]string, manyKeys)
	for i := range names {
		names[i] = "host-" + strconv.Itoa(i) + ".example.com"
	}
	return names
}

// perKey calls f with one key after another, each goroutine from a place of its own.
func perKey(b *testing.B, f func(key string)) {
	names := keys()
	for _, k := range names {
		f(k) // the making of 100,000 limiters is not what is asked for
	}
	var mu sync.Mutex
	start := 0
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		mu.Lock()
		i := start
		start += manyKeys / 3
		mu.Unlock()
		for pb.Next() {
			i = (i + 1) % manyKeys // in order: it is the hash that scatters them
			f(names[i])
		}
	})
}

func xtimeKeyed(b *testing.B) {
	var mu sync.Mutex
	m := make(map[string]*rate.Limiter)
	perKey(b, func(k string) {
		mu.Lock()
		l := m[k]
		if l == nil {
			l = rate.NewLimiter(endless, endless)
			m[k] = l
		}
		mu.Unlock()
		l.Allow()
	})
}

func sethvargoKeyed(b *testing.B) {
	s, err := memorystore.New(&memorystore.Config{Tokens: endless, Interval: time.Hour})
	must(err)
	ctx := context.Background()
	defer func() { must(s.Close(ctx)) }()
	perKey(b, func(k string) {
		_, _, _, _, err := s.Take(ctx, k)
		must(err)
	})
}

func gobreakerTwoStep(b *testing.B) {
	br := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{})
	parallel(b, func() {
		done, err := br.Allow()
		must(err)
		done(nil)
	})
}

func gobreakerExecute(b *testing.B) {
	br := gobreaker.NewCircuitBreaker[any](gobreaker.Settings{})
	work := func() (any, error) { return nil, nil }
	parallel(b, func() {
		_, err := br.Execute(work)
		must(err)
	})
}

func failsafeBreaker(b *testing.B) {
	br := circuitbreaker.NewWithDefaults[any]()
	parallel(b, func() {
		if br.TryAcquirePermit() {
			br.RecordSuccess()
		}
	})
}

// nowhere answers every request at once.
type nowhere struct{}

func (nowhere) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

func newRequest() *http.Request {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://host.example.com/", http.NoBody)
	must(err)
	return req
}

// trips sends one request through rt again and again and reads each answer.
func trips(b *testing.B, rt http.RoundTripper) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		req := newRequest()
		for pb.Next() {
			resp, err := rt.RoundTrip(req)
			must(err)
			_, err = io.Copy(io.Discard, resp.Body)
			must(err)
			must(resp.Body.Close())
		}
	})
}

func bareTrip(b *testing.B) { trips(b, nowhere{}) }

func failsafeTrip(b *testing.B) {
	trips(b, failsafehttp.NewRoundTripper(nowhere{},
		retrypolicy.NewWithDefaults[*http.Response](),
		circuitbreaker.NewWithDefaults[*http.Response](),
		timeout.New[*http.Response](time.Minute)))
}

func retryableTrip(b *testing.B) {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.HTTPClient = &http.Client{Transport: nowhere{}}
	trips(b, &retryablehttp.RoundTripper{Client: c})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
