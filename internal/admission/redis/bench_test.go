package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// A decision over loopback: one plan, three in one script, and three one by one, which is
// what it would take without a script for all of them.
func BenchmarkTake(b *testing.B) {
	s := sharedServer(b)
	plans := []admission.Plan{
		bucket(b, "b", 1<<30, 1e6), fixed(b, "f", 1<<30, time.Hour), sliding(b, "s", 1<<30, time.Hour),
	}
	run := func(name string, cfg redis.Config, parallel int, decide func(*redis.Repository) error) {
		b.Run(name, func(b *testing.B) {
			r := open(b, cfg, s.Addr)
			require.NoError(b, r.Ping(context.Background()))
			before := r.Statistics().Trips
			b.ReportAllocs()
			b.SetParallelism(parallel)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := decide(r); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(r.Statistics().Trips-before)/float64(b.N), "trips/op")
		})
	}
	ask := func(plans ...admission.Plan) func(*redis.Repository) error {
		return func(r *redis.Repository) error {
			_, err := r.Take(context.Background(), "ann", plans, 1)
			return err
		}
	}
	each := func(r *redis.Repository) error {
		for i := range plans {
			if _, err := r.Take(context.Background(), "ann", plans[i:i+1], 1); err != nil {
				return err
			}
		}
		return nil
	}
	drained := bucket(b, "drained", 1, 1e-6)
	for _, parallel := range []int{1, 32} {
		suffix := map[int]string{1: "", 32: "/many"}[parallel]
		run("one plan"+suffix, redis.Config{}, parallel, ask(plans[0]))
		run("three plans"+suffix, redis.Config{}, parallel, ask(plans...))
		run("three calls"+suffix, redis.Config{}, parallel, each)
		run("denied, asked"+suffix, redis.Config{Keys: -1}, parallel, ask(drained))
		run("denied, remembered"+suffix, redis.Config{}, parallel, ask(drained))
		run("leases of 100"+suffix, redis.Config{Lease: 10 * time.Second}, parallel, ask(bucket(b, "l100", 200, 1e9)))
		run("leases of 1000"+suffix, redis.Config{Lease: 10 * time.Second}, parallel, ask(bucket(b, "l1000", 2000, 1e9)))
	}
}

// What a decision costs while Redis is down.
func BenchmarkOpen(b *testing.B) {
	r := open(b, redis.Config{Deadline: short, Breaker: breaker.Config{Consecutive: 1, OpenFor: time.Hour}}, "127.0.0.1:1")
	plans := []admission.Plan{bucket(b, "p", 10, 1)}
	_, err := r.Take(context.Background(), "ann", plans, 1)
	require.Error(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Take(context.Background(), "ann", plans, 1); err == nil {
			b.Fatal("it was decided")
		}
	}
}
