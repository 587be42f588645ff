package main

import "net/http"

// handler is a candidate that is open.
type handler struct {
	http.Handler
	trips func() uint64 // to the store so far; nil if nobody counts them
}

// candidate is one way to limit requests. The first of a group limits nothing.
type candidate struct {
	name  string
	ours  bool
	goal  float64 // most that its ratio may be; zero means that none was set
	trips bool    // its trips are counted
	// tripsGoal is the most trips a request that it may take. Zero means that none was set.
	tripsGoal float64
	open      func(b *bench) (h handler, end func(), err error)
}

// group is what is comparable.
type group struct {
	name, what string
	redis      bool   // it needs the server
	yardstick  string // a candidate; empty means the fastest of the other libraries
	keys       int    // asked for in turn
	widths     []int  // of the load, in units
	unit       string
	load       func(h handler, width, keys int) (load, error)
	candidates []candidate
}

const manyKeys = 10_000

// groups is what the tables show. The goals are this project's own.
func groups() []group {
	var all []group
	for _, keys := range []int{1, manyKeys} {
		suffix, what := "-1", "one client"
		if keys > 1 {
			suffix, what = "-10k", "10,000 clients in turn"
		}
		all = append(all,
			group{
				name: "header" + suffix, what: what + ", told apart by a header, in memory: processor time", keys: keys,
				widths: []int{1, 2}, unit: "proc", load: inProcess, candidates: inMemory(byHeader, memoryGoal),
			},
			group{
				name: "address" + suffix, what: what + ", told apart by the address of the connection, in memory: processor time", keys: keys,
				widths: []int{1, 2}, unit: "proc", load: inProcess, candidates: inMemory(byAddress, memoryGoal),
			})
	}
	return append(all,
		group{
			name: "loopback", what: "10,000 clients in turn, in memory, over connections to a server in the same process: processor time of both ends", keys: manyKeys,
			widths: []int{16}, unit: "connection", load: overLoopback, candidates: inMemory(byHeader, 0),
		},
		group{
			name: "redis", what: "1,000 clients in turn, kept in Redis", redis: true, yardstick: "redis_rate", keys: 1000,
			widths: []int{1, 32}, unit: "goroutine", load: manyAtOnce, candidates: inRedis(),
		},
		group{
			name: "plans", what: "1,000 clients in turn, three limits each, kept in Redis", redis: true,
			yardstick: "redis_rate, three calls", keys: 1000,
			widths: []int{1, 32}, unit: "goroutine", load: manyAtOnce, candidates: threeInRedis(),
		},
		group{
			name: "leases", what: "one client that asks all the time, kept in Redis", redis: true, yardstick: "redis_rate", keys: 1,
			widths: []int{1, 32}, unit: "goroutine", load: manyAtOnce, candidates: leasedInRedis(),
		})
}

// The goals: a repository in memory is faster than any of the others; one decision in
// Redis costs about one of theirs, and one over three plans half of three; and leases
// of a hundred save nineteen trips of twenty at least.
const (
	memoryGoal = 0.9
	redisGoal  = 1.3
	plansGoal  = 0.5
	tripsGoal  = 1.0 / 20 // trips a request
)

func inMemory(by keying, goal float64) []candidate {
	return []candidate{
		{name: "no limit", open: alone},
		{name: "ulule/limiter, fixed window", open: ulule(by)},
		{name: "httprate, sliding window", open: httpRate(by)},
		{name: "sethvargo/go-limiter, fixed window", open: sethvargo(by)},
		{name: "throttled, GCRA", open: throttledMemory(by)},
		{name: "ours, token bucket", ours: true, goal: goal, open: oursInMemory(by, bucket, legacy)},
		{name: "ours, sliding window", ours: true, open: oursInMemory(by, sliding, legacy)},
		{name: "ours, token bucket, IETF headers too", ours: true, open: oursInMemory(by, bucket, both)},
	}
}

func inRedis() []candidate {
	return []candidate{
		{name: "no limit", open: alone},
		{name: "redis_rate", open: redisRate(1)},
		{name: "ulule/limiter, Redis", open: ululeRedis},
		{name: "throttled, Redis", open: throttledRedis},
		{name: "ours, Redis", ours: true, goal: redisGoal, trips: true, open: oursInRedis(0, bucket)},
		{name: "ours, Redis, after a burst", ours: true, goal: redisGoal, trips: true, open: oursAfterBurst},
		{name: "ours, SQLite", ours: true, open: oursInSQLite},
	}
}

func threeInRedis() []candidate {
	return []candidate{
		{name: "no limit", open: alone},
		{name: "redis_rate, three calls", open: redisRate(3)},
		{name: "ours, three plans", ours: true, goal: plansGoal, trips: true, open: oursInRedis(0, bucket, fixed, sliding)},
		{name: "ours, three buckets", ours: true, trips: true, open: oursInRedis(0, bucket, bucketOf("second"), bucketOf("third"))},
		{name: "ours, three calls", ours: true, trips: true, open: oursInRedisEach(bucket, bucketOf("second"), bucketOf("third"))},
	}
}

func leasedInRedis() []candidate {
	return []candidate{
		{name: "no limit", open: alone},
		{name: "redis_rate", open: redisRate(1)},
		{name: "ours, Redis", ours: true, trips: true, open: oursInRedis(0, bucket)},
		{name: "ours, leases of 100", ours: true, tripsGoal: tripsGoal, trips: true, open: oursInRedis(leaseLength, hundreds)},
	}
}
