package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/clock"
)

// awaitEvery is how often somebody who waits for a job looks for it, with two commands.
const awaitEvery = time.Second

// healsWithin is how long a replica may take to come to the place of a node: some seconds more
// than a cluster-node-timeout, of which 15 s are usual.
const healsWithin = 30 * time.Second

// ErrComplete is that a job has nothing left to do.
var ErrComplete = errors.New("all of its URLs are done")

// Await waits until a job has URLs to visit, for a process that brings none. wait, if set, is
// called when there is something to wait for: the job itself, or its first URL, and for which
// again when that changes. The error is that of ctx, [ErrComplete], or what is wrong with the
// server: at first at once, later when it has not answered for giveUp.
func Await(ctx context.Context, o rueidis.ClientOption, job string, giveUp time.Duration, clk clock.Clock, wait func(there bool)) error {
	if err := settleAddress(&o, job); err != nil {
		return err
	}
	client, err := dial(o)
	if err != nil {
		return err
	}
	defer client.Close()
	var answered time.Time
	begun := clk.Now()
	said := ""
	for {
		now := clk.Now()
		stage, err := stageOf(ctx, client, job)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			answered = now
		case answered.IsZero() && client.Mode() == rueidis.ClientModeCluster && heals(err) && now.Sub(begun) < healsWithin:
		case answered.IsZero():
			return err
		case now.Sub(answered) >= giveUp:
			return fmt.Errorf("not answered within %v: %w", giveUp, err)
		}
		switch stage {
		case stageBegun:
			return nil
		case stageComplete:
			return ErrComplete
		case stageAbsent, stageEmpty:
			if stage != said && wait != nil {
				wait(stage == stageEmpty)
			}
			said = stage
		}
		if err := clock.Sleep(ctx, clk, awaitEvery); err != nil {
			return err
		}
	}
}

// What a job is to somebody who waits for it.
const (
	stageAbsent   = "absent"
	stageEmpty    = "empty" // nobody has brought a URL
	stageBegun    = "begun"
	stageComplete = "complete"
)

// stageOf looks at a job. The figures of its partitions are read once it has a seed.
func stageOf(ctx context.Context, c rueidis.Client, job string) (stage string, err error) {
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	j, err := findJob(ctx, c, job)
	if errors.Is(err, ErrNoJob) {
		return stageAbsent, nil
	}
	if err != nil {
		return "", err
	}
	seeds, err := c.Do(ctx, c.B().Zcard().Key(jobKey(job, "seeds")).Build()).ToInt64()
	if err != nil {
		return "", fmt.Errorf("redis: %w", err)
	}
	if seeds == 0 || !j.whole {
		return stageEmpty, nil
	}
	t, err := tallyOf(ctx, c, j)
	switch {
	case err != nil:
		return "", err
	case t.added == 0:
		return stageEmpty, nil
	case t.added > t.done:
		return stageBegun, nil
	}
	workers, _, err := workersOf(ctx, c, job, nil)
	if err != nil {
		return "", fmt.Errorf("redis: %w", err)
	}
	for i := range workers {
		if workers[i].Alive && workers[i].Seeding {
			return stageBegun, nil // there is more to come
		}
	}
	return stageComplete, nil
}
