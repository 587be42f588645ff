package redis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// foreignEvery is how often it is logged that a key of ours holds something else.
const foreignEvery = time.Minute

// Shared returns the repository in the form in which limiters count the tokens of budgets that they share. If a key
// holds something that is not ours, it logs that key: otherwise limiters would send no requests, and nobody would know
// why.
func (r *Repository) Shared(log *slog.Logger) ratelimit.SharedTokens {
	return &shared{take: r.Take, now: r.cfg.Clock.Now, log: log}
}

type shared struct {
	take func(ctx context.Context, key string, plans []admission.Plan, n int64) (admission.Result, error)
	now  func() time.Time
	log  *slog.Logger

	mu   sync.Mutex // guards what follows
	told time.Time
}

func (s *shared) Take(ctx context.Context, key string, b ratelimit.SharedBucket, n int64) (ratelimit.TokensTaken, error) {
	plan := admission.Plan{Name: b.Name, Kind: admission.KindTokenBucket, Capacity: b.Capacity, TokensPerSecond: b.Rate}
	res, err := s.take(ctx, key, []admission.Plan{plan}, n)
	if foreign, ok := errors.AsType[*ForeignKeyError](err); ok && s.due() {
		s.log.Error("a key of Redis by which a rate is counted is none of ours, and nothing that is bound by it is asked for: delete it, and the crawl goes on",
			slog.String("key", foreign.Key), slog.String("fix", "redis-cli DEL '"+foreign.Key+"'"))
	}
	return ratelimit.TokensTaken{Allowed: res.Allowed, Remaining: res.Remaining, Wait: res.Wait}, err
}

func (s *shared) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.told.IsZero() && now.Sub(s.told) < foreignEvery {
		return false
	}
	s.told = now
	return true
}
