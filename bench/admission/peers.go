package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/httprate"
	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// keyOf is the key function of those who do not bring one for headers.
func keyOf(r *http.Request) string { return r.Header.Get(keyHeader) }

var hourly = limiter.Rate{Limit: endless, Period: time.Hour}

func ulule(by keying) func(*bench) (handler, func(), error) {
	return func(*bench) (handler, func(), error) {
		return ululeOver(ululememory.NewStore(), by), func() {}, nil
	}
}

func ululeOver(store limiter.Store, by keying) handler {
	var options []stdlib.Option // its default is the address
	if by == byHeader {
		options = append(options, stdlib.WithKeyGetter(keyOf))
	}
	return handler{Handler: stdlib.NewMiddleware(limiter.New(store, hourly), options...).Handler(http.HandlerFunc(nothing))}
}

// httpRate has no key function for addresses any more, but what makes a key of one.
func httpRate(by keying) func(*bench) (handler, func(), error) {
	key := func(r *http.Request) (string, error) { return keyOf(r), nil }
	if by == byAddress {
		key = func(r *http.Request) (string, error) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			return httprate.CanonicalizeIP(host), err
		}
	}
	return func(*bench) (handler, func(), error) {
		return handler{Handler: httprate.LimitBy(endless, time.Hour, key)(http.HandlerFunc(nothing))}, func() {}, nil
	}
}

func sethvargo(by keying) func(*bench) (handler, func(), error) {
	key := httplimit.IPKeyFunc()
	if by == byHeader {
		key = httplimit.IPKeyFunc(keyHeader)
	}
	return func(*bench) (handler, func(), error) {
		store, err := memorystore.New(&memorystore.Config{Tokens: endless, Interval: time.Hour})
		if err != nil {
			return handler{}, nil, err
		}
		mw, err := httplimit.NewMiddleware(store, key)
		if err != nil {
			return handler{}, nil, err
		}
		return handler{Handler: mw.Handle(http.HandlerFunc(nothing))}, func() { _ = store.Close(context.Background()) }, nil
	}
}

// casAttempts is how often it tries again to write what another has changed meanwhile. Two
// processors that ask for one key need more than its default of ten now and then, after
// which it answers with 500.
const casAttempts = 1000

// throttledKeys is as many keys as the store keeps, above those that are asked for.
const throttledKeys = 1 << 16

func throttledMemory(by keying) func(*bench) (handler, func(), error) {
	return func(*bench) (handler, func(), error) {
		store, err := memstore.NewCtx(throttledKeys)
		if err != nil {
			return handler{}, nil, err
		}
		return throttledOver(store, by)
	}
}

func throttledOver(store throttled.GCRAStoreCtx, by keying) (handler, func(), error) {
	// A million a second is the fastest that it does not reckon to be no time at all.
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(1_000_000), MaxBurst: endless})
	if err != nil {
		return handler{}, nil, err
	}
	l.SetMaxCASAttemptsLimit(casAttempts)
	vary := &throttled.VaryBy{RemoteAddr: by == byAddress}
	if by == byHeader {
		vary.Headers = []string{keyHeader}
	}
	mw := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: vary}
	return handler{Handler: mw.RateLimit(http.HandlerFunc(nothing))}, func() {}, nil
}

// goRedis is the client of the others, with a connection for each goroutine.
func goRedis(b *bench) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: b.redis, PoolSize: 64, ReadTimeout: patience, WriteTimeout: patience})
}

// redisRate has no middleware; this one does what the others do. With several calls, a
// request is let in by as many limits.
func redisRate(calls int) func(*bench) (handler, func(), error) {
	limit := redis_rate.Limit{Rate: 1_000_000, Period: time.Second, Burst: endless}
	return func(b *bench) (handler, func(), error) {
		c := goRedis(b)
		l := redis_rate.NewLimiter(c)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := range calls {
				res, err := l.Allow(r.Context(), strconv.Itoa(i)+":"+keyOf(r), limit)
				if err != nil {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				w.Header().Set("X-RateLimit-Limit", strconv.Itoa(res.Limit.Burst))
				w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(res.Remaining))
				w.Header().Set("X-RateLimit-Reset", strconv.Itoa(int(res.ResetAfter/time.Second)))
				if res.Allowed == 0 {
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
			}
			nothing(w, r)
		})
		return handler{Handler: h}, func() { _ = c.Close() }, nil
	}
}

func ululeRedis(b *bench) (handler, func(), error) {
	c := goRedis(b)
	store, err := ululeredis.NewStore(c)
	if err != nil {
		return handler{}, nil, errors.Join(err, c.Close())
	}
	return ululeOver(store, byHeader), func() { _ = c.Close() }, nil
}

func throttledRedis(b *bench) (handler, func(), error) {
	c := goRedis(b)
	store, err := throttledredis.NewCtx(c, "throttled:")
	if err != nil {
		return handler{}, nil, errors.Join(err, c.Close())
	}
	h, _, err := throttledOver(store, byHeader)
	return h, func() { _ = c.Close() }, err
}
