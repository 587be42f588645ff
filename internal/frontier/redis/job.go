package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/rueidis"

	"github.com/treadlight/crawl/internal/frontier"
)

// Control is what the processes of a job shall do.
type Control string

// The controls.
const (
	Running  Control = "running"  // crawl
	Paused   Control = "paused"   // lease nothing further until the control changes
	Draining Control = "draining" // finish what is in flight, and end
	// CutOff is only set locally: the server has been silent for so long that no request may be sent to a host.
	CutOff Control = "cut_off"
)

type job struct {
	name       string
	id         string
	key        uint64 // key of the fingerprints
	partitions int
	max        int // bound of the URLs of a host; zero means no bound
	created    time.Time
	terms      map[string]string
	set        map[string]bool   // terms that an operator has changed
	fields     map[string]string // all stored fields
}

func jobKey(job, what string) string { return "crawl:{" + job + "}:" + what }

func root(job string, partition int) string {
	return "crawl:{" + job + "/" + strconv.Itoa(partition) + "}:"
}

func counters(job string, partition int) string { return root(job, partition) + "n" }

func (j *job) partitionOf(host string) int {
	return int(xxhash.Sum64String(host) % uint64(j.partitions))
}

// answered reports whether a host has answered any request.
func (j *job) answered() bool { return j.fields["answered"] == "1" || j.fields["visited"] == "1" }

// unvisited returns why no URL was visited. Empty means that one was, or that no reason is known.
func (j *job) unvisited() string {
	if j.fields["visited"] == "1" {
		return ""
	}
	return j.fields["unruled"]
}

// errDamaged means that the stored job is not what a process has stored.
var errDamaged = errors.New("is damaged: purge the job")

func readJob(name string, fields map[string]string) (*job, error) {
	if fields["id"] == "" {
		return nil, fmt.Errorf("job %s: %w", name, ErrNoJob)
	}
	j := &job{name: name, id: fields["id"], terms: map[string]string{}, set: map[string]bool{}, fields: fields}
	var errs [4]error
	var created int64
	j.key, errs[0] = strconv.ParseUint(fields["key"], 10, 64)
	j.partitions, errs[1] = strconv.Atoi(fields["partitions"])
	j.max, errs[2] = strconv.Atoi(fields["max"])
	created, errs[3] = strconv.ParseInt(fields["created"], 10, 64)
	if errors.Join(errs[:]...) != nil || j.partitions < 1 || j.partitions > maxPartitions {
		return nil, fmt.Errorf("redis: %s %w", jobKey(name, "job"), errDamaged)
	}
	j.created = time.UnixMilli(created).UTC()
	for field, value := range fields {
		if term, ok := strings.CutPrefix(field, "term:"); ok {
			j.terms[term] = value
		}
		if term, ok := strings.CutPrefix(field, "set:"); ok {
			j.set[term] = true
		}
	}
	return j, nil
}

// makeJob makes the job, or joins one whose terms are the same.
func makeJob(ctx context.Context, l *link, cfg *Config) (j *job, err error) {
	if cfg.Join {
		j, err = findJob(ctx, l.Client, cfg.Job)
	} else {
		key := cfg.key
		for key == 0 {
			key = rand.Uint64()
		}
		args := []string{
			timeArg(cfg.now), strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36),
			strconv.FormatUint(key, 10), decimal(cfg.partitions), decimal(cfg.MaxPagesPerHost),
		}
		for term, value := range cfg.Terms {
			args = append(args, term, value)
		}
		var reply []message
		if reply, err = l.one(ctx, &call{script: scriptJob, keys: []string{jobKey(cfg.Job, "job")}, args: args}); err != nil {
			return nil, err
		}
		j, err = readJob(cfg.Job, pairs(reply))
	}
	if err != nil {
		return nil, err
	}
	diffs := slices.DeleteFunc(differences(j.terms, cfg.Terms), func(d frontier.Diff) bool { return j.set[d.Term] })
	if len(diffs) > 0 {
		return nil, &frontier.TermsError{Job: cfg.Job, Diffs: diffs}
	}
	if err := makePartitions(ctx, l, j); err != nil {
		return nil, fmt.Errorf("redis: make the job: %w", err)
	}
	return j, nil
}

func findJob(ctx context.Context, c rueidis.Client, name string) (*job, error) {
	fields, err := c.Do(ctx, c.B().Hgetall().Key(jobKey(name, "job")).Build()).AsStrMap()
	if answered, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(answered.Error(), "WRONGTYPE") {
		return nil, fmt.Errorf("redis: %s %w", jobKey(name, "job"), errDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("redis: %w", said(err))
	}
	return readJob(name, fields)
}

// makePartitions makes the partitions that are missing because the maker of the job was interrupted. Once the job is
// marked as ready, no partition may be missing.
func makePartitions(ctx context.Context, l *link, j *job) error {
	if j.fields["ready"] == "1" {
		return nil
	}
	fields := []string{"seq", "tok", "count", "level", "split", "added", "done", "refused", "reclaimed", "max", "v"} // v is last
	values := map[string]string{"max": decimal(j.max), "v": j.id}
	var list rueidis.Commands
	for p := range j.partitions {
		for _, f := range fields {
			list = append(list, l.B().Hsetnx().Key(counters(j.name, p)).Field(f).Value(cmp.Or(values[f], "0")).Build())
		}
	}
	for part := range slices.Chunk(list, 8*chunk) {
		for _, res := range l.DoMulti(ctx, part...) {
			if err := res.Error(); err != nil {
				return err
			}
		}
	}
	return l.Do(ctx, l.B().Hset().Key(jobKey(j.name, "job")).FieldValue().FieldValue("ready", "1").Build()).Error()
}

// timeArg returns the time argument of scripts; "0" makes them use the server's clock.
func timeArg(now func() int64) string {
	if now == nil {
		return "0"
	}
	return decimal(now())
}

// leastVersion is the first version that has script flags, by which scripts that free memory may run on a server out of
// memory.
var leastVersion = []int{7, 0}

// inspect returns an error for servers that could not keep a job whole.
func inspect(ctx context.Context, c rueidis.Client) error {
	for fields, err := range infos(ctx, c) {
		if err != nil {
			return fmt.Errorf("redis: %w", said(err))
		}
		if err := judge(fields); err != nil {
			return err
		}
	}
	return nil
}

// infos yields the INFO of each node by its fields, or why the node does not give it.
func infos(ctx context.Context, c rueidis.Client) iter.Seq2[map[string]string, error] {
	return func(yield func(map[string]string, error) bool) {
		for _, node := range c.Nodes() {
			info, err := node.Do(ctx, node.B().Info().Build()).ToString()
			if !yield(infoOf(info), err) {
				return
			}
		}
	}
}

func infoOf(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// judge returns why a server could not keep a job whole, given its INFO, or nil.
func judge(fields map[string]string) error {
	if is := fields["redis_version"]; fields["valkey_version"] == "" && is != "" { // every Valkey is recent enough
		version := make([]int, 2)
		for i, part := range strings.SplitN(is, ".", 3) {
			if i < len(version) {
				version[i], _ = strconv.Atoi(part) // an unreadable number counts as zero, which is too old
			}
		}
		if slices.Compare(version, leastVersion) < 0 {
			return fmt.Errorf("redis: the server is version %s: want 7.0 or later, or Valkey", is)
		}
	}
	if fields["role"] == "slave" && fields["cluster_enabled"] == "0" && fields["slave_read_only"] != "0" {
		return fmt.Errorf("redis: the server is a replica of %s, from which one can only read: give the address of its master, or that of a Sentinel with ?master_set=NAME",
			net.JoinHostPort(fields["master_host"], fields["master_port"]))
	}
	if policy := fields["maxmemory_policy"]; policy != "" && policy != "noeviction" && fields["maxmemory"] != "0" {
		return fmt.Errorf("redis: the server's maxmemory-policy is %s, by which it would drop parts of the job: set it to noeviction", policy)
	}
	return nil
}

type tally struct{ added, done, refused, reclaimed int64 }

func tallyOf(ctx context.Context, c rueidis.Client, j *job) (tally, error) {
	t, _, err := tallyServed(ctx, c, j, func(error) bool { return false })
	return t, err
}

// tallyServed sums the figures of all partitions, except those with an error that pass accepts; these are returned in
// unread. All done counts are read before any added count: if the sums are equal, there was an instant at which nothing
// was left to do (Mattern, 1987, four-counter method).
func tallyServed(ctx context.Context, c rueidis.Client, j *job, pass func(error) bool) (t tally, unread map[int]bool, err error) {
	unread = make(map[int]bool)
	figures := make(map[int]tally, j.partitions)
	for _, fields := range [][]string{{"v", "done", "refused", "reclaimed"}, {"v", "added"}} {
		var list rueidis.Commands
		var of []int // the partition of each
		for p := range j.partitions {
			if !unread[p] {
				list, of = append(list, c.B().Hmget().Key(counters(j.name, p)).Field(fields...).Build()), append(of, p)
			}
		}
		for i, res := range c.DoMulti(ctx, list...) {
			values, err := res.AsStrSlice()
			f := figures[of[i]]
			switch {
			case err != nil && pass(err):
				unread[of[i]] = true
			case err != nil:
				return t, nil, fmt.Errorf("redis: %w", err)
			case len(values) != len(fields) || values[0] != j.id:
				return t, nil, fmt.Errorf("redis: %w", ErrNoJob)
			case len(fields) == 2:
				f.added = parse(values[1])
			default:
				f.done, f.refused, f.reclaimed = parse(values[1]), parse(values[2]), parse(values[3])
			}
			figures[of[i]] = f
		}
	}
	for p, f := range figures {
		if !unread[p] {
			t.done, t.refused, t.reclaimed, t.added = t.done+f.done, t.refused+f.refused, t.reclaimed+f.reclaimed, t.added+f.added
		}
	}
	return t, unread, nil
}

func parse(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
