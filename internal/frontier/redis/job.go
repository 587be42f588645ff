package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/rueidis"
)

// Control is what the processes of a job are to do.
type Control string

// The controls.
const (
	Running  Control = "running"  // crawl
	Paused   Control = "paused"   // lease nothing further until it is another
	Draining Control = "draining" // finish what is under way, and end
)

// job is what all processes of a crawl have in common.
type job struct {
	name       string
	id         string
	key        uint64 // of the fingerprints
	partitions int
	max        int // URLs of a host; zero: no bound
	created    time.Time
	control    Control
	terms      map[string]string
	set        map[string]bool // terms that an operator has set since
	blocked    string          // the verdict; empty: there is none
	whole      bool            // its partitions have been made
	answered   bool            // a host has answered to a request
	visited    bool            // a host has answered to one of its URLs
	unruled    string          // why one could not be asked for, the first; empty: there was none
}

func jobKey(job, what string) string { return "crawl:{" + job + "}:" + what }

// root is what the keys of a partition have in common.
func root(job string, partition int) string {
	return "crawl:{" + job + "/" + strconv.Itoa(partition) + "}:"
}

func counters(job string, partition int) string { return root(job, partition) + "n" }

// partitionOf is the partition of a host.
func (j *job) partitionOf(host string) int {
	return int(xxhash.Sum64String(host) % uint64(j.partitions))
}

const (
	termPrefix = "term:"
	setPrefix  = "set:" // begins what marks a term as one that an operator has set
)

// errDamaged is that what is stored of a job is not what a process has stored there.
var errDamaged = errors.New("is damaged: purge the job")

// readJob reads what is stored of a job.
func readJob(name string, fields map[string]string) (*job, error) {
	if fields["id"] == "" {
		return nil, ErrNoJob
	}
	j := &job{
		name: name, id: fields["id"], control: Control(fields["control"]), terms: map[string]string{}, set: map[string]bool{}, blocked: fields["blocked"], whole: fields["ready"] == "1",
		answered: fields["answered"] == "1" || fields["visited"] == "1", visited: fields["visited"] == "1", unruled: fields["unruled"],
	}
	key, err1 := strconv.ParseUint(fields["key"], 10, 64)
	partitions, err2 := strconv.Atoi(fields["partitions"])
	most, err3 := strconv.Atoi(fields["max"])
	created, err4 := strconv.ParseInt(fields["created"], 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil || partitions < 1 || partitions > maxPartitions {
		return nil, fmt.Errorf("redis: %s %w", jobKey(name, "job"), errDamaged)
	}
	j.key, j.partitions, j.max, j.created = key, partitions, most, time.UnixMilli(created).UTC()
	for field, value := range fields {
		if term, ok := strings.CutPrefix(field, termPrefix); ok {
			j.terms[term] = value
		}
		if term, ok := strings.CutPrefix(field, setPrefix); ok {
			j.set[term] = true
		}
	}
	return j, nil
}

// pairs is a reply of fields and values.
func pairs(reply []rueidis.RedisMessage) map[string]string {
	m := make(map[string]string, len(reply)/2)
	for i := 0; i+1 < len(reply); i += 2 {
		m[text(reply[i])] = text(reply[i+1])
	}
	return m
}

// makeJob makes the job, or joins one whose terms are the same.
func makeJob(ctx context.Context, l *link, cfg *Config) (*job, error) {
	if cfg.Mode == Join {
		j, err := findJob(ctx, l.Client, cfg.Job)
		if err != nil {
			return nil, err
		}
		return j, agree(ctx, l, j, cfg)
	}
	key := cfg.Key
	for key == 0 {
		key = rand.Uint64()
	}
	args := []string{
		timeArg(cfg.now), strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36),
		strconv.FormatUint(key, 10), strconv.Itoa(cfg.Partitions), strconv.Itoa(cfg.MaxPagesPerHost),
	}
	for term, value := range cfg.Terms {
		args = append(args, term, value)
	}
	reply, err := l.one(ctx, &call{script: scriptJob, keys: []string{jobKey(cfg.Job, "job")}, args: args})
	if err != nil {
		return nil, err
	}
	j, err := readJob(cfg.Job, pairs(reply))
	if err != nil {
		return nil, err
	}
	return j, agree(ctx, l, j, cfg)
}

// findJob reads a job that is there.
func findJob(ctx context.Context, c rueidis.Client, name string) (*job, error) {
	fields, err := c.Do(ctx, c.B().Hgetall().Key(jobKey(name, "job")).Build()).AsStrMap()
	if answered, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(answered.Error(), "WRONGTYPE") {
		return nil, fmt.Errorf("redis: %s %w", jobKey(name, "job"), errDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("redis: %w", said(err))
	}
	j, err := readJob(name, fields)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", name, err)
	}
	return j, nil
}

// agree compares the terms, and sees that the partitions are there. Those of a job whose
// maker was ended in the middle are made by the next; of one that was whole none may be
// missing.
func agree(ctx context.Context, l *link, j *job, cfg *Config) error {
	diffs := slices.DeleteFunc(differences(j.terms, cfg.Terms), func(d Diff) bool { return j.set[d.Term] })
	if len(diffs) > 0 {
		return &TermsError{cfg.Job, diffs}
	}
	if j.whole {
		return nil
	}
	for from := 0; from < j.partitions; from += chunk {
		var list rueidis.Commands
		for p := from; p < min(from+chunk, j.partitions); p++ {
			key := counters(j.name, p)
			for _, f := range [][2]string{
				{"seq", "0"},
				{"tok", "0"},
				{"count", "0"},
				{"level", "0"},
				{"split", "0"},
				{"added", "0"},
				{"done", "0"},
				{"refused", "0"},
				{"reclaimed", "0"},
				{"max", strconv.Itoa(j.max)},
				{"v", j.id},
			} {
				list = append(list, l.B().Hsetnx().Key(key).Field(f[0]).Value(f[1]).Build())
			}
		}
		for _, res := range l.DoMulti(ctx, list...) {
			if err := res.Error(); err != nil {
				return fmt.Errorf("redis: make the job: %w", err)
			}
		}
	}
	if err := l.Do(ctx, l.B().Hset().Key(jobKey(j.name, "job")).FieldValue().FieldValue("ready", "1").Build()).Error(); err != nil {
		return fmt.Errorf("redis: make the job: %w", err)
	}
	return nil
}

// timeArg is the time that scripts are told: 0 has them take the server's.
func timeArg(now func() int64) string {
	if now == nil {
		return "0"
	}
	return strconv.FormatInt(now(), 10)
}

// leastVersion has the flags of scripts that let those through that free memory.
var leastVersion = []int{7, 0}

// inspect refuses servers on which a job could not be kept whole.
func inspect(ctx context.Context, c rueidis.Client) error {
	for _, node := range c.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Build()).ToString()
		if err != nil {
			return fmt.Errorf("redis: %w", said(err))
		}
		if err := judge(info); err != nil {
			return err
		}
	}
	return nil
}

// judge reads what a server says of itself.
func judge(info string) error {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	if fields["valkey_version"] == "" { // those are all recent enough
		version := make([]int, 2)
		for i, part := range strings.SplitN(fields["redis_version"], ".", 3) {
			if i < 2 {
				version[i], _ = strconv.Atoi(part) // zero is too old
			}
		}
		if fields["redis_version"] != "" && slices.Compare(version, leastVersion) < 0 {
			return fmt.Errorf("redis: the server is version %s: want 7.0 or later, or Valkey", fields["redis_version"])
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
