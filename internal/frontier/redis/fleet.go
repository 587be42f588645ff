package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Fleet is an operator's access to a job. It is safe for concurrent use.
type Fleet struct {
	link link
	job  *job
}

// Dial connects to a job. The error is [ErrNoJob] if it does not exist.
func Dial(ctx context.Context, o rueidis.ClientOption, job string) (*Fleet, error) {
	return dialJob(ctx, o, job, false)
}

// DialToPurge is like Dial, for a job that may be damaged. The result is for Purge only.
func DialToPurge(ctx context.Context, o rueidis.ClientOption, job string) (*Fleet, error) {
	return dialJob(ctx, o, job, true)
}

func dialJob(ctx context.Context, o rueidis.ClientOption, name string, damaged bool) (*Fleet, error) {
	if err := settleAddress(&o, name); err != nil {
		return nil, err
	}
	client, err := dial(o)
	if err != nil {
		return nil, err
	}
	j, err := findJob(ctx, client, name)
	if damaged && errors.Is(err, errDamaged) {
		j, err = &job{name: name, partitions: maxPartitions}, nil
	}
	f := newFleet(client, j)
	if err != nil {
		err = f.explain(ctx, err)
		client.Close()
		return nil, err
	}
	return f, nil
}

func newFleet(client rueidis.Client, j *job) *Fleet { return &Fleet{link{Client: client}, j} }

// Close closes the connections.
func (f *Fleet) Close() { f.link.Close() }

// SetControl sets what all processes of the job shall do. They learn of it within a third of their leases.
func (f *Fleet) SetControl(ctx context.Context, control Control) error {
	if !slices.Contains([]Control{Running, Paused, Draining}, control) {
		return fmt.Errorf("redis: control %q: want %s, %s or %s", control, Running, Paused, Draining)
	}
	// A job that is gone must not be made again by the write.
	if _, err := findJob(ctx, f.link.Client, f.job.name); err != nil {
		return err
	}
	err := f.link.Do(ctx, f.link.B().Hset().Key(jobKey(f.job.name, "job")).FieldValue().FieldValue("control", string(control)).Build()).Error()
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Set changes bounds of the job, and returns the old ones by their terms; empty means no bound. Processes learn of the
// change within a third of their leases.
func (f *Fleet) Set(ctx context.Context, b Bounds) (before map[string]string, err error) {
	values := map[string]string{}
	if b.Pages != nil {
		values[maxPages] = decimal(*b.Pages)
	}
	if b.Time != nil {
		values[maxTime] = ratelimit.Span(*b.Time)
	}
	if (b.Pages != nil && *b.Pages < 0) || (b.Time != nil && *b.Time < 0) {
		return nil, errors.New("redis: a bound is below zero: want zero for none, or more")
	}
	t, err := tallyOf(ctx, f.link.Client, f.job)
	if err != nil {
		return nil, f.explain(ctx, err)
	}
	args := []string{"0", f.job.id, decimal(t.done)}
	terms := slices.Sorted(maps.Keys(values))
	for _, term := range terms {
		args = append(args, term, values[term])
	}
	keys := []string{jobKey(f.job.name, "job"), jobKey(f.job.name, "drawn")}
	was, err := f.link.once(ctx, &call{script: scriptSet, keys: keys, args: args})
	if err != nil {
		return nil, f.explain(ctx, err)
	}
	before = make(map[string]string, len(terms))
	for i, value := range was[:min(len(was), len(terms))] {
		before[terms[i]] = text(value)
	}
	return before, nil
}

// Purge deletes the job and returns the number of deleted keys. Its processes end with [ErrNoJob]. The counters are
// deleted first, so that nothing more is written; the job itself last, so that an interrupted purge can be repeated.
func (f *Fleet) Purge(ctx context.Context) (keys int64, err error) {
	var first []string
	for p := range f.job.partitions {
		first = append(first, counters(f.job.name, p))
	}
	keys, err = f.unlink(ctx, first)
	for _, pattern := range []string{"crawl:{" + f.job.name + "/*}:*", "crawl:{" + f.job.name + "}:*"} {
		for _, node := range f.link.Nodes() { // a replica has the same keys as its master
			for cursor, more := uint64(0), true; more && err == nil; more = cursor != 0 {
				var entry rueidis.ScanEntry
				if entry, err = node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry(); err != nil {
					break
				}
				var n int64
				n, err = f.unlink(ctx, slices.DeleteFunc(entry.Elements, func(key string) bool { return !f.owns(key) }))
				keys += n
				cursor = entry.Cursor
			}
		}
	}
	if err != nil {
		return keys, fmt.Errorf("redis: %w", err)
	}
	return keys, nil
}

func (f *Fleet) unlink(ctx context.Context, keys []string) (n int64, err error) {
	var list rueidis.Commands
	for _, key := range keys {
		list = append(list, f.link.B().Unlink().Key(key).Build())
	}
	for _, res := range f.link.DoMulti(ctx, list...) {
		one, err := res.ToInt64()
		if err != nil {
			return n, err
		}
		n += one
	}
	return n, nil
}

// owns reports whether a key belongs to the job, and not to another one whose name begins with its name.
func (f *Fleet) owns(key string) bool {
	tag, _, ok := strings.Cut(strings.TrimPrefix(key, "crawl:{"), "}:")
	if !ok || tag == f.job.name {
		return ok
	}
	partition, ok := strings.CutPrefix(tag, f.job.name+"/")
	return ok && partition != "" && strings.Trim(partition, "0123456789") == ""
}

// awaitEvery is how often Await looks for the job, with two commands.
const awaitEvery = time.Second

// healsWithin is how long a failover may take: somewhat longer than the usual cluster-node-timeout of 15 s.
const healsWithin = 30 * time.Second

// Await waits until a job has URLs, for a process without seeds. wait, if set, is called with false when Await begins
// to wait for the job itself, and with true when it begins to wait for the first URL. The error is that of ctx,
// [frontier.ErrComplete], or the server's: before the first answer at once, later after giveUp.
func Await(ctx context.Context, o rueidis.ClientOption, name string, giveUp time.Duration, clk clock.Clock, wait func(there bool)) error {
	if err := settleAddress(&o, name); err != nil {
		return err
	}
	client, err := dial(o)
	if err != nil {
		return err
	}
	f := newFleet(client, &job{name: name})
	defer f.Close()
	var answered time.Time
	var said *bool
	for begun := clk.Now(); ; {
		trip, cancel := context.WithTimeout(ctx, tripTimeout)
		s, err := f.Status(trip)
		cancel()
		now, there := clk.Now(), err == nil
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case there && s.Seeds > 0 && s.Known > 0:
			if s.Complete && !slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.Alive && w.Seeding }) {
				return frontier.ErrComplete
			}
			return nil
		case there || errors.Is(err, ErrNoJob):
			if answered = now; wait != nil && (said == nil || *said != there) {
				wait(there)
			}
			said = &there
		case answered.IsZero() && f.unserved(err) && now.Sub(begun) < healsWithin:
		case answered.IsZero():
			return err
		case now.Sub(answered) >= giveUp:
			return fmt.Errorf("not answered within %v: %w", giveUp, err)
		}
		if err := clock.Sleep(ctx, clk, awaitEvery); err != nil {
			return err
		}
	}
}
