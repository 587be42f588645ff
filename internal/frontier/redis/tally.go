package redis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// tally are the figures of all partitions of a job.
type tally struct{ added, done, refused, reclaimed int64 }

// tallyOf reads them.
func tallyOf(ctx context.Context, c rueidis.Client, j *job) (tally, error) {
	t, _, err := tallyServed(ctx, c, j, func(error) bool { return false })
	return t, err
}

// tallyServed reads the figures of all partitions but those at which there is an error that may
// pass, which it names. What is done is read before anything that was added: when the two are
// equal there was an instant at which they were (Mattern, 1987, of four counters).
func tallyServed(ctx context.Context, c rueidis.Client, j *job, pass func(error) bool) (t tally, unread map[int]bool, err error) {
	unread = make(map[int]bool)
	fields := []string{"done", "refused", "reclaimed", "added"}
	figures := make([][4]int64, j.partitions)
	for i, field := range fields {
		var list rueidis.Commands
		var of []int // the partition of each
		for p := range j.partitions {
			if !unread[p] {
				list, of = append(list, c.B().Hmget().Key(counters(j.name, p)).Field("v", field).Build()), append(of, p)
			}
		}
		for k, res := range c.DoMulti(ctx, list...) {
			values, err := res.AsStrSlice()
			switch {
			case err != nil && pass(err):
				unread[of[k]] = true
			case err != nil:
				return t, nil, fmt.Errorf("redis: %w", err)
			case len(values) != 2 || values[0] != j.id:
				return t, nil, fmt.Errorf("redis: %w", ErrNoJob)
			default:
				figures[of[k]][i] = parse(values[1])
			}
		}
	}
	for p, n := range figures {
		if !unread[p] {
			t.done, t.refused, t.reclaimed, t.added = t.done+n[0], t.refused+n[1], t.reclaimed+n[2], t.added+n[3]
		}
	}
	return t, unread, nil
}
