package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Fleet is a job as an operator sees it. It is safe for concurrent use.
type Fleet struct {
	client rueidis.Client
	job    *job
}

// WorkerInfo is what a process tells of itself.
type WorkerInfo struct {
	Name    string `json:"name"`
	Hosts   int    `json:"hosts"`   // that it has
	Added   int64  `json:"added"`   // URLs that it found first
	Done    int64  `json:"done"`    // URLs that it has visited
	Dropped int64  `json:"dropped"` // URLs for which the server had no memory
	Lost    int64  `json:"lost"`    // hosts whose lease ended
	Loaded  int    `json:"loaded"`  // URLs that it was handed and are not done
	Seeding bool   `json:"seeding"` // it brings seeds yet
	// State is whether it is working; idle, without a URL; or blocked: all of its hosts refuse
	// to be asked. Empty of a version that tells nothing.
	State string `json:"state,omitempty"`
	// Use is what it uses of what the job has, by the names of [Budget].
	Use map[string]float64 `json:"use,omitempty"`
	// Busiest is what it uses of budgets of each scope where it uses most, by the names of the
	// budgets and the scopes.
	Busiest map[string]map[string]float64 `json:"busiest,omitempty"`
	// Leased is how many URLs it is asking for.
	Leased int `json:"leased"`
}

// Worker is a process of a job.
type Worker struct {
	ID string `json:"id"`
	WorkerInfo
	Alive bool `json:"alive"` // its lease has not ended
	// Until is when its lease ends, or has ended, by the server's clock.
	Until time.Time `json:"until"`
	// Doing is what it is at, for people: see [Doing].
	Doing Doing `json:"doing"`
}

// Status is how far a job is. The figures of partitions are of slightly different moments.
type Status struct {
	Job      string  `json:"job"`
	Control  Control `json:"control"`
	Complete bool    `json:"complete"` // nothing is left to do: exact, unlike Queued
	// Ended is why nobody is at it any more, though it is not purged: see [Ended].
	Ended Ended `json:"ended,omitempty"`
	// Blocked is which hosts refuse, when only such remain and the job has come to its end.
	Blocked string `json:"blocked,omitempty"`
	// Unanswered is whether no host has answered to any request so far.
	Unanswered bool `json:"unanswered,omitempty"`
	// Unvisited is why no URL could be asked for, as the robots.txt of no host can be had; empty
	// as soon as one was.
	Unvisited  string            `json:"unvisited,omitempty"`
	Created    time.Time         `json:"created"`
	Now        time.Time         `json:"now"` // by the server's clock
	Partitions int               `json:"partitions"`
	Terms      map[string]string `json:"terms"`
	Known      int64             `json:"known"`     // URLs ever added
	Queued     int64             `json:"queued"`    // URLs that wait, or are handed out
	Done       int64             `json:"done"`      // URLs
	Refused    int64             `json:"refused"`   // URLs beyond the bound of their host
	Reclaimed  int64             `json:"reclaimed"` // hosts taken back from processes that had died
	Ready      int64             `json:"ready"`     // hosts that belong to nobody and may be asked
	Waiting    int64             `json:"waiting"`   // hosts that belong to nobody and may not be asked yet
	Owned      int64             `json:"owned"`     // hosts that belong to a process
	Workers    []Worker          `json:"workers"`   // by their names
	Seeds      int64             `json:"seeds"`
	Budgets    []Budget          `json:"budgets"` // of the terms, what the processes share
	// MemoryBytes is what the servers' masters use for everything they hold, and MemoryLimit
	// what they may; zero: all there is.
	MemoryBytes int64 `json:"memory_bytes"`
	MemoryLimit int64 `json:"memory_limit"`
	// Unread is how many partitions cannot be read, and are in none of the figures, as their
	// masters of the cluster do not answer; and Away are those masters, as far as others know.
	Unread int      `json:"unread,omitempty"`
	Away   []string `json:"away,omitempty"`
}

// Dial connects to a job. The error is [ErrNoJob] if there is none.
func Dial(ctx context.Context, o rueidis.ClientOption, job string) (*Fleet, error) {
	return dialJob(ctx, o, job, false)
}

// DialToPurge is Dial for a job of which what is stored may not be readable, and that is
// good for nothing but Purge then.
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
	f := &Fleet{client, j}
	if err != nil {
		err = f.explain(ctx, err)
		client.Close()
		return nil, err
	}
	return f, nil
}

// Close gives the connections back.
func (f *Fleet) Close() { f.client.Close() }

// SetControl has all processes of the job do something else, which they hear of within a
// third of their leases.
func (f *Fleet) SetControl(ctx context.Context, control Control) error {
	switch control {
	case Running, Paused, Draining:
	default:
		return fmt.Errorf("redis: control %q: want %s, %s or %s", control, Running, Paused, Draining)
	}
	// Of a job that is gone nothing is to be made again.
	if _, err := findJob(ctx, f.client, f.job.name); err != nil {
		return err
	}
	err := f.client.Do(ctx, f.client.B().Hset().Key(jobKey(f.job.name, "job")).FieldValue().FieldValue("control", string(control)).Build()).Error()
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Status reads how far the job is: some commands for each partition.
func (f *Fleet) Status(ctx context.Context) (Status, error) {
	j, err := findJob(ctx, f.client, f.job.name)
	if err != nil {
		return Status{}, f.explain(ctx, err)
	}
	t, unread, err := tallyServed(ctx, f.client, j, f.unserved)
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Job: j.name, Control: j.control, Complete: t.added == t.done && len(unread) == 0, Unread: len(unread), Created: j.created, Partitions: j.partitions, Terms: j.terms,
		Blocked: j.blocked, Unanswered: !j.answered, Unvisited: j.unvisited(),
		Known: t.added, Queued: max(0, t.added-t.done), Done: t.done, Refused: t.refused, Reclaimed: t.reclaimed,
	}
	if s.Unread > 0 {
		s.Away = f.away(ctx)
	}
	if err := f.look(ctx, &s, unread); err != nil {
		return s, f.explain(ctx, fmt.Errorf("redis: %w", err))
	}
	return s, nil
}

// look fills in what is no counter, but for partitions that cannot be read.
func (f *Fleet) look(ctx context.Context, s *Status, unread map[int]bool) error {
	c := f.client
	var err error
	if s.Workers, s.Now, err = workersOf(ctx, c, s.Job, nil); err != nil {
		return err
	}
	now := decimal(s.Now.UnixMilli())
	for p := range s.Partitions {
		if unread[p] {
			continue
		}
		at := root(s.Job, p)
		waits, err := c.Do(ctx, c.B().Zcard().Key(at+"ready").Build()).ToInt64()
		if err != nil {
			return err
		}
		ready, err := c.Do(ctx, c.B().Zcount().Key(at+"ready").Min("-inf").Max(now).Build()).ToInt64()
		if err != nil {
			return err
		}
		s.Ready, s.Waiting = s.Ready+ready, s.Waiting+waits-ready
		sessions, err := c.Do(ctx, c.B().Zrange().Key(at+"w").Min("0").Max("-1").Build()).AsStrSlice()
		if err != nil {
			return err
		}
		for _, session := range sessions {
			n, err := c.Do(ctx, c.B().Hlen().Key(at+"o:"+session).Build()).ToInt64()
			if err != nil {
				return err
			}
			s.Owned += max(0, n-1) // one is the number of its last request
		}
	}
	if s.Seeds, err = c.Do(ctx, c.B().Zcard().Key(jobKey(s.Job, "seeds")).Build()).ToInt64(); err != nil {
		return err
	}
	if err := f.budgets(ctx, s); err != nil {
		return err
	}
	s.judge()
	return f.memory(ctx, s)
}

// serverTime is the time by a server's clock, or that of a test.
func serverTime(ctx context.Context, c rueidis.Client, test func() int64) (time.Time, error) {
	if test != nil {
		return time.UnixMilli(test()).UTC(), nil
	}
	clock, err := c.Do(ctx, c.B().Time().Build()).AsIntSlice()
	if err != nil && c.Mode() == rueidis.ClientModeCluster && heals(err) {
		for _, node := range c.Nodes() { // any will do, and that one is away
			if clock, err = node.Do(ctx, node.B().Time().Build()).AsIntSlice(); err == nil {
				break
			}
		}
	}
	if err != nil || len(clock) != 2 {
		return time.Time{}, fmt.Errorf("TIME: %w", err)
	}
	return time.Unix(clock[0], clock[1]*1000).UTC(), nil
}

// workersOf are the processes of a job that were heard of lately, by their names, and the
// server's time, or that of a test.
func workersOf(ctx context.Context, c rueidis.Client, job string, test func() int64) ([]Worker, time.Time, error) {
	now, err := serverTime(ctx, c, test)
	if err != nil {
		return nil, now, err
	}
	ids, err := c.Do(ctx, c.B().Zrange().Key(jobKey(job, "workers")).Min("0").Max("-1").Withscores().Build()).AsZScores()
	if err != nil {
		return nil, now, err
	}
	infos, err := c.Do(ctx, c.B().Hgetall().Key(jobKey(job, "info")).Build()).AsStrMap()
	if err != nil {
		return nil, now, err
	}
	workers := make([]Worker, 0, len(ids))
	for _, id := range ids {
		w := Worker{ID: id.Member, Until: time.UnixMilli(int64(id.Score)).UTC()}
		w.Alive = w.Until.After(now)
		_ = json.Unmarshal([]byte(infos[id.Member]), &w.WorkerInfo) // of another version: what is there of it
		workers = append(workers, w)
	}
	slices.SortFunc(workers, func(a, b Worker) int {
		return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID)
	})
	return workers, now, nil
}

func (f *Fleet) memory(ctx context.Context, s *Status) error {
	for _, node := range f.client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Build()).ToString()
		if err != nil && f.unserved(err) {
			continue // a replica is enough not to be there
		}
		if err != nil {
			return err
		}
		if !strings.Contains(info, "role:master") {
			continue
		}
		for line := range strings.Lines(info) {
			switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
			case "used_memory":
				s.MemoryBytes += parse(value)
			case "maxmemory":
				s.MemoryLimit += parse(value)
			}
		}
	}
	return nil
}

// Purge deletes all that is stored of the job, and returns how many keys that were. The
// processes that are still at it end with [ErrNoJob].
func (f *Fleet) Purge(ctx context.Context) (keys int64, err error) {
	// The counters go first: without them nothing is written any more, and nobody joins. The job
	// itself goes last, so that a purge that was interrupted can be repeated.
	var first []string
	for p := range f.job.partitions {
		first = append(first, counters(f.job.name, p))
	}
	for _, key := range first {
		n, err := f.client.Do(ctx, f.client.B().Unlink().Key(key).Build()).ToInt64()
		if err != nil {
			return keys, fmt.Errorf("redis: %w", err)
		}
		keys += n
	}
	for _, pattern := range []string{"crawl:{" + f.job.name + "/*}:*", "crawl:{" + f.job.name + "}:*"} {
		for _, node := range f.client.Nodes() {
			n, err := f.purge(ctx, node, pattern)
			keys += n
			if err != nil {
				return keys, fmt.Errorf("redis: %w", err)
			}
		}
	}
	return keys, nil
}

// purge deletes the keys of one node; a replica's are its master's.
func (f *Fleet) purge(ctx context.Context, node rueidis.Client, pattern string) (keys int64, err error) {
	for cursor := uint64(0); ; {
		entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return keys, err
		}
		var list rueidis.Commands
		for _, key := range entry.Elements {
			if f.owns(key) {
				list = append(list, f.client.B().Unlink().Key(key).Build())
			}
		}
		for _, res := range f.client.DoMulti(ctx, list...) {
			n, err := res.ToInt64()
			if err != nil {
				return keys, err
			}
			keys += n
		}
		if cursor = entry.Cursor; cursor == 0 {
			return keys, nil
		}
	}
}

// owns reports whether a key is of the job, and not of one whose name begins with its name
// and a dot.
func (f *Fleet) owns(key string) bool {
	tag, _, ok := strings.Cut(strings.TrimPrefix(key, "crawl:{"), "}:")
	if !ok || tag == f.job.name {
		return ok
	}
	partition, ok := strings.CutPrefix(tag, f.job.name+"/")
	if !ok {
		return false
	}
	for _, c := range partition {
		if c < '0' || c > '9' {
			return false
		}
	}
	return partition != ""
}

// parse reads a figure of a server; what is none is zero.
func parse(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
