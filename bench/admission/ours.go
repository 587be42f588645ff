package main

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
	"github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/admission/sqlite"
	_ "github.com/treadlight/crawl/sqlite"
)

// endless is a limit that no run exhausts: what is measured is the grant.
const endless = 1 << 30

// The plans.
var (
	bucket  = bucketOf("bucket")
	fixed   = admission.Plan{Name: "fixed", Kind: admission.KindFixedWindow, Capacity: endless, Window: time.Hour}
	sliding = admission.Plan{Name: "sliding", Kind: admission.KindSlidingWindow, Capacity: endless, Window: time.Hour}

	// hundreds has leases of 100, half its capacity, and flows in faster than it is asked.
	hundreds = admission.Plan{Name: "hundreds", Capacity: 200, TokensPerSecond: 1e7}
)

// leaseLength is long enough for any client here to use a hundred tokens up.
const leaseLength = 100 * time.Millisecond

func bucketOf(name string) admission.Plan {
	return admission.Plan{Name: name, Capacity: endless, TokensPerSecond: 1e6}
}

// keying is who is counted.
type keying bool

const (
	byHeader  keying = false
	byAddress keying = true
)

// rule is the name of the key function in rules.
func (k keying) rule() string {
	if k == byAddress {
		return "ip"
	}
	return "header:" + keyHeader
}

const (
	legacy = admission.HeadersLegacy
	both   = admission.HeadersBoth
)

// nothing is the handler behind all candidates.
func nothing(http.ResponseWriter, *http.Request) {}

// alone limits nothing.
func alone(*bench) (handler, func(), error) {
	return handler{Handler: http.HandlerFunc(nothing)}, func() {}, nil
}

func oursInMemory(by keying, plan admission.Plan, style admission.Headers) func(*bench) (handler, func(), error) {
	return func(*bench) (handler, func(), error) {
		repo, err := memory.New(memory.Config{})
		if err != nil {
			return handler{}, nil, err
		}
		return behind(repo, by, style, plan)
	}
}

// behind is our middleware over a repository, with one rule for all of the plans.
func behind(repo admission.Repository, by keying, style admission.Headers, plans ...admission.Plan) (handler, func(), error) {
	end := func() { _ = repo.Close() }
	rule := admission.Rule{Name: "api", Path: "/api/**", Key: by.rule()}
	for _, p := range plans {
		rule.Plans = append(rule.Plans, p.Name)
	}
	rules, err := admission.NewRuleSet(admission.RuleSetConfig{}, plans, []admission.Rule{rule}, nil)
	if err != nil {
		return handler{}, nil, err
	}
	cfg := admission.Config{
		Repository: repo, Rules: rules,
		OnError: admission.FailClosed, // so that what was not decided does not count as cheap
		Log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if _, immediate := repo.(*memory.Repository); !immediate {
		cfg.Deadline = patience
	}
	admitter, err := admission.New(cfg)
	if err != nil {
		return handler{}, nil, err
	}
	mw, err := admission.Middleware(admission.MiddlewareConfig{Admitter: admitter, Headers: style})
	if err != nil {
		return handler{}, nil, err
	}
	return handler{Handler: mw(http.HandlerFunc(nothing))}, end, nil
}

// oursInRedis has leases of that length, or none.
func oursInRedis(lease time.Duration, plans ...admission.Plan) func(*bench) (handler, func(), error) {
	return func(b *bench) (handler, func(), error) {
		repo, err := openRedis(b, lease)
		if err != nil {
			return handler{}, nil, err
		}
		h, end, err := behind(repo, byHeader, legacy, plans...)
		h.trips = func() uint64 { return repo.Statistics().Trips }
		return h, end, err
	}
}

// openRedis is our repository on our server, connected.
func openRedis(b *bench, lease time.Duration) (*redis.Repository, error) {
	repo, err := redis.New(redis.Config{
		Redis: rueidis.ClientOption{InitAddress: []string{b.redis}}, Lease: lease,
		Deadline: patience, // a machine that is busy with other things is no reason to give up
	})
	if err != nil {
		return nil, err
	}
	return repo, repo.Ping(b.ctx)
}

// oursAfterBurst has been asked by many at once before: from then on the client hands
// questions on to goroutines of its own, which send those of all callers together.
func oursAfterBurst(b *bench) (handler, func(), error) {
	h, end, err := oursInRedis(0, bucket)(b)
	if err != nil {
		return h, end, err
	}
	burst, err := manyAtOnce(h, 64, 1)
	if err == nil {
		_, _, err = burst.run(b.cell)
	}
	return h, end, err
}

// oursInRedisEach charges the plans one after another, as if they could not be charged
// together.
func oursInRedisEach(plans ...admission.Plan) func(*bench) (handler, func(), error) {
	return func(b *bench) (handler, func(), error) {
		repo, err := openRedis(b, 0)
		if err != nil {
			return handler{}, nil, err
		}
		for i := range plans {
			if plans[i], err = plans[i].Settle(); err != nil {
				return handler{}, nil, err
			}
		}
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := range plans {
				res, err := repo.Take(r.Context(), r.Header.Get(keyHeader), plans[i:i+1], 1)
				if err != nil || !res.Allowed {
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
			}
		})
		return handler{h, func() uint64 { return repo.Statistics().Trips }}, func() { _ = repo.Close() }, nil
	}
}

// oursInSQLite keeps its file in a directory of its own.
func oursInSQLite(*bench) (handler, func(), error) {
	dir, err := os.MkdirTemp("", "admission-bench-")
	if err != nil {
		return handler{}, nil, err
	}
	repo, err := sqlite.New(sqlite.Config{Path: filepath.Join(dir, "limits.db")})
	if err != nil {
		return handler{}, nil, err
	}
	h, end, err := behind(repo, byHeader, legacy, bucket)
	return h, func() { end(); _ = os.RemoveAll(dir) }, err
}
