package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// WorkerInfo is what a process reports about itself.
type WorkerInfo struct {
	Name    string `json:"name"`
	Hosts   int    `json:"hosts"`   // hosts that it holds
	Added   int64  `json:"added"`   // URLs that it was the first to find
	Done    int64  `json:"done"`    // URLs that it has visited
	Dropped int64  `json:"dropped"` // URLs dropped because the server was out of memory
	Lost    int64  `json:"lost"`    // hosts whose lease ended
	Loaded  int    `json:"loaded"`  // URLs that it was handed and that are not done
	Seeding bool   `json:"seeding"` // it may still bring seeds
	// State is working, idle (without a URL) or blocked (its hosts refuse requests). Empty means a process of an older
	// version.
	State string `json:"state,omitempty"`
	// Use is what the process uses of the job's budgets, by the names of [Budget].
	Use map[string]float64 `json:"use,omitempty"`
	// Busiest is the highest use of budgets that apply per scope, by budget and scope.
	Busiest map[string]map[string]float64 `json:"busiest,omitempty"`
	Leased  int                           `json:"leased"` // number of URLs that it is requesting
}

// Worker is a process of a job.
type Worker struct {
	ID string `json:"id"`
	WorkerInfo
	Alive bool      `json:"alive"` // its lease has not ended
	Until time.Time `json:"until"` // when its lease ends, or has ended, by the server's clock
	Doing Doing     `json:"doing"` // what the process is doing
}

// Status says how far a job is. The figures of different partitions are of slightly different moments.
type Status struct {
	Job      string  `json:"job"`
	Control  Control `json:"control"`
	Complete bool    `json:"complete"` // nothing is left to do. This is exact, unlike Queued
	// Ended is why no process works on the job any more, although it is not purged. Empty means that one does.
	Ended Ended `json:"ended,omitempty"`
	// Blocked says which hosts refuse requests, if the job has ended because only such hosts remain.
	Blocked    string `json:"blocked,omitempty"`
	Unanswered bool   `json:"unanswered,omitempty"` // no host has answered any request so far
	// Unvisited is why no URL could be requested, if no host's robots.txt can be fetched. It is empty as soon as one
	// was requested.
	Unvisited  string            `json:"unvisited,omitempty"`
	Created    time.Time         `json:"created"`
	Now        time.Time         `json:"now"` // by the server's clock
	Partitions int               `json:"partitions"`
	Terms      map[string]string `json:"terms"`
	Counted
	Workers []Worker `json:"workers"` // ordered by name
	Seeds   int64    `json:"seeds"`
	Budgets []Budget `json:"budgets"` // the terms that the processes share as a budget
	// MemoryBytes is the memory that the masters use, and MemoryLimit their limit; zero means no limit.
	MemoryBytes int64 `json:"memory_bytes"`
	MemoryLimit int64 `json:"memory_limit"`
	// Unread is how many partitions are missing from all figures because their masters do not answer. Away lists those
	// masters, if known.
	Unread int      `json:"unread,omitempty"`
	Away   []string `json:"away,omitempty"`
}

// Counted is the sum of the figures of a job's partitions.
type Counted struct {
	Known     int64 `json:"known"`     // URLs ever added
	Queued    int64 `json:"queued"`    // URLs that wait or are handed out
	Done      int64 `json:"done"`      // URLs that are done
	Refused   int64 `json:"refused"`   // URLs beyond the bound of their host
	Reclaimed int64 `json:"reclaimed"` // hosts taken back from processes that had died
	Ready     int64 `json:"ready"`     // hosts that belong to nobody and are due
	Waiting   int64 `json:"waiting"`   // hosts that belong to nobody and are not due yet
	Owned     int64 `json:"owned"`     // hosts that belong to a process
}

// Budget is what all processes of a job have together, and what they use of it.
type Budget struct {
	Name string `json:"name"` // name of its term, such as "max_pages"
	Plan string `json:"plan"` // value of the term
	// Used is in the unit of the budget: pages, seconds, requests or bytes per second, or requests in flight. Of the
	// last three kinds it is the sum of what the processes reported last.
	Used  float64 `json:"used"`
	Scope string  `json:"scope,omitempty"` // the busiest scope of a budget per scope; empty: the whole job, or no use
}

// Doing is what a process of a job is doing.
type Doing string

// What processes do.
const (
	Crawling  Doing = "crawling"    // it is requesting URLs
	Waiting   Doing = "no host due" // none of its hosts may be asked yet
	Idle      Doing = "no host"     // it owns none, and takes over from others
	Refused   Doing = "blocked"     // all of its hosts refuse requests
	Pausing   Doing = "paused"      // an operator has paused the job
	Finishing Doing = "finishing"   // it finishes what is in flight, as an operator has ended the job
	Lost      Doing = "lost"        // its lease has ended without a heartbeat: it has died, or is cut off
)

// Ended is why no process works on a job any more.
type Ended string

// The reasons. A job that was not purged can be resumed after each of them but the first.
const (
	EndedComplete Ended = "complete"  // nothing is left to do
	EndedPages    Ended = "max_pages" // the page budget of the job is used up
	EndedTime     Ended = "max_time"  // its time is over
	EndedDrained  Ended = "drained"   // an operator has ended it
	EndedBlocked  Ended = "blocked"   // only hosts remain that refuse requests
	EndedAlone    Ended = "alone"     // its processes have left it or died
)

// Status reads how far the job is. That takes some commands per partition.
func (f *Fleet) Status(ctx context.Context) (Status, error) {
	j, err := findJob(ctx, f.link.Client, f.job.name)
	if err != nil {
		return Status{}, f.explain(ctx, err)
	}
	t, unread, err := tallyServed(ctx, f.link.Client, j, f.unserved)
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Job: j.name, Control: Control(j.fields["control"]), Complete: t.added == t.done && len(unread) == 0, Unread: len(unread),
		Created: j.created, Partitions: j.partitions, Terms: j.terms, Blocked: j.fields["blocked"], Unanswered: !j.answered(), Unvisited: j.unvisited(),
		Counted: Counted{Known: t.added, Queued: max(0, t.added-t.done), Done: t.done, Refused: t.refused, Reclaimed: t.reclaimed},
		Workers: []Worker{}, Budgets: []Budget{},
	}
	if s.Unread > 0 {
		s.Away = f.away(ctx)
	}
	if err := f.look(ctx, &s, j.id, unread); err != nil {
		return s, f.explain(ctx, err)
	}
	return s, nil
}

// look fills in what is not counted in the partitions' counters, without partitions that cannot be read.
func (f *Fleet) look(ctx context.Context, s *Status, id string, unread map[int]bool) error {
	drawn, err := f.workers(ctx, s, id)
	if err != nil {
		return err
	}
	var calls []*call
	for p := range s.Partitions {
		if !unread[p] {
			calls = append(calls, &call{script: scriptLook, keys: []string{counters(s.Job, p)}, args: []string{"0", id}})
		}
	}
	if err := f.link.try(ctx, calls); err != nil {
		return err
	}
	for _, c := range calls {
		if c.err != nil {
			return c.err
		}
		s.Ready, s.Waiting, s.Owned = s.Ready+number(c.reply[0]), s.Waiting+number(c.reply[1]), s.Owned+number(c.reply[2])
	}
	s.budgets(drawn)
	for i := range s.Workers {
		s.Workers[i].Doing = s.Workers[i].doing(s.Control)
	}
	s.Ended = s.ended()
	return f.memory(ctx, s)
}

// workers fills in the processes heard of lately, and other figures of the job as a whole.
func (f *Fleet) workers(ctx context.Context, s *Status, id string) (drawn int64, err error) {
	var keys []string
	for _, what := range []string{"job", "workers", "info", "seeds", "drawn"} {
		keys = append(keys, jobKey(s.Job, what))
	}
	reply, err := f.link.once(ctx, &call{script: scriptTell, keys: keys, args: []string{"0", id}})
	if err != nil {
		return 0, err
	}
	s.Now, s.Seeds = time.UnixMilli(number(reply[0])).UTC(), number(reply[3])
	infos := list(reply[2])
	for pair := range slices.Chunk(list(reply[1]), 2) {
		w := Worker{ID: text(pair[0]), Until: time.UnixMilli(parse(text(pair[1]))).UTC()}
		w.Alive = w.Until.After(s.Now)
		_ = json.Unmarshal([]byte(text(infos[len(s.Workers)])), &w.WorkerInfo) // another version may report less
		s.Workers = append(s.Workers, w)
	}
	slices.SortFunc(s.Workers, func(a, b Worker) int { return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID) })
	return parse(text(reply[4])), nil
}

func (f *Fleet) memory(ctx context.Context, s *Status) error {
	for fields, err := range infos(ctx, f.link.Client) {
		if err != nil && f.unserved(err) {
			continue // the node may be a replica, and need not be there
		}
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		if fields["role"] == "master" {
			s.MemoryBytes += parse(fields["used_memory"])
			s.MemoryLimit += parse(fields["maxmemory"])
		}
	}
	return nil
}

// budgetTerms are the terms that are budgets of the job as a whole.
var budgetTerms = []string{
	maxPages, maxTime, "ratelimit.global_rps", "ratelimit.ip_rps", "ratelimit.site_rps", "ratelimit.global_concurrency", "ratelimit.global_bytes",
}

func (s *Status) budgets(drawn int64) {
	for _, name := range budgetTerms {
		plan, ok := s.Terms[name]
		if !ok || plan == "0" { // an operator has removed the bound
			continue
		}
		b := Budget{Name: name, Plan: plan}
		switch name {
		case maxPages:
			b.Used = float64(drawn)
		case maxTime:
			b.Used = s.Now.Sub(s.Created).Seconds()
		case "ratelimit.ip_rps", "ratelimit.site_rps":
			b.Scope, b.Used = s.busiest(name)
		default:
			for i := range s.Workers {
				if s.Workers[i].Alive {
					b.Used += s.Workers[i].Use[name]
				}
			}
		}
		s.Budgets = append(s.Budgets, b)
	}
}

// busiest returns the scope of which all living processes together use most, as far as they have reported it.
func (s *Status) busiest(name string) (scope string, used float64) {
	sums := make(map[string]float64)
	for i := range s.Workers {
		if s.Workers[i].Alive {
			for at, n := range s.Workers[i].Busiest[name] {
				sums[at] += n
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(sums)) {
		if sums[at] > used {
			scope, used = at, sums[at]
		}
	}
	return scope, used
}

// UsedUp reports whether nothing is left of a budget of pages or of time. It is false for other budgets.
func (b *Budget) UsedUp() bool {
	switch b.Name {
	case maxPages:
		return int64(b.Used) >= parse(b.Plan)
	case maxTime:
		d, err := time.ParseDuration(b.Plan)
		return err == nil && b.Used >= d.Seconds()
	}
	return false
}

// doing returns what the process is doing.
func (w *Worker) doing(control Control) Doing {
	switch {
	case !w.Alive:
		return Lost
	case control == Draining:
		return Finishing
	case control == Paused && w.Leased == 0:
		return Pausing
	case w.State == stateBlocked:
		return Refused
	case w.Leased > 0:
		return Crawling
	case w.Hosts == 0:
		return Idle
	}
	return Waiting
}

// ended returns why no process works on the job; empty if one does.
func (s *Status) ended() Ended {
	if s.Complete {
		return EndedComplete
	}
	if slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.Alive }) {
		return ""
	}
	if i := slices.IndexFunc(s.Budgets, func(b Budget) bool { return b.UsedUp() }); i >= 0 {
		return Ended(s.Budgets[i].Name)
	}
	switch {
	case s.Control == Draining:
		return EndedDrained
	case s.Blocked != "":
		return EndedBlocked
	}
	return EndedAlone
}

// awayPatience is how long the nodes of a cluster are waited for when some may be away.
const awayPatience = 3 * time.Second

// unserved reports whether an error means that a master of a cluster is away.
func (f *Fleet) unserved(err error) bool {
	return f.link.Mode() == rueidis.ClientModeCluster && heals(err)
}

// explain adds to an error which masters of the cluster are away, if that is its cause.
func (f *Fleet) explain(ctx context.Context, err error) error {
	if !f.unserved(err) {
		return err
	}
	masters := f.away(ctx)
	if len(masters) == 0 {
		return err
	}
	are := "the masters " + strings.Join(masters, ", ") + " are"
	if len(masters) == 1 {
		are = "the master " + masters[0] + " is"
	}
	return fmt.Errorf("%w: of the cluster %s away, without which the job cannot be read: a replica takes the place of a master after its cluster-node-timeout; where there is none, begin it again", err, are)
}

// away returns the masters with slots that do not answer or that other nodes have given up, as far as known.
func (f *Fleet) away(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, awayPatience)
	defer cancel()
	silent, nodes := make(map[string]bool), ""
	for addr, node := range f.link.Nodes() {
		text, err := node.Do(ctx, node.B().ClusterNodes().Build()).ToString()
		if silent[addr] = err != nil; err == nil {
			nodes = text
		}
	}
	return awayOf(nodes, silent)
}

// awayOf reads a node's view of the cluster, a line per node: ID, address, flags, master, two times, epoch, link state
// and slots.
func awayOf(nodes string, silent map[string]bool) (masters []string) {
	for line := range strings.Lines(nodes) {
		words := strings.Fields(line)
		if len(words) < 9 {
			continue // the node has no slots
		}
		addr, _, _ := strings.Cut(words[1], "@")
		if strings.Contains(words[2], "master") && (silent[addr] || strings.Contains(words[2], "fail")) {
			masters = append(masters, addr)
		}
	}
	slices.Sort(masters)
	return masters
}
