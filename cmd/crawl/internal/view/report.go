// Package view shows a crawl to people: while it runs, on the whole terminal, in a status line or in log lines; at its
// end, from its state; and afterwards, from its records.
package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/web/neardup"
)

const (
	reportHosts    = 20 // rows of the table of hosts
	reportClusters = 3  // pages listed as most often repeated
	incidentHosts  = 3  // hosts whose incidents are listed
	incidentEvents = 4  // events of each: the last pause, its cause and its end
	longestFact    = 20 // bytes; longer names of facts do not widen the margin of the others
)

// longestHost returns the length at which names of hosts are cut, so that a long one does not push the other columns
// off the screen.
func longestHost(columns int) int { return min(max(columns/4, 22), 40) }

// Report is what a person is told about a crawl, at its end or while it runs. Empty fields are left out.
type Report struct {
	Snap    *pipeline.Snapshot
	Columns int               // the width of the screen
	Records string            // where the records are
	Pages   string            // how many pages of Markdown there are, and where
	Archive string            // where the archives are
	Items   string            // how many items there are, and what they lack
	Events  string            // how many events there are, and where
	Skipped string            // how many URLs are listed as left out, and where
	Names   map[string]string // display names of hosts by their names; nil means none
	Over    string            // how the crawl ended; empty means the words of its state
	InAll   int64             // records in that file, with those of earlier runs; zero means unknown
	Before  int64             // URLs that earlier runs visited
	GoOn    string            // the command that resumes the crawl
	Closer  string            // the command that shows more details
	Left    string            // what becomes of the URLs left in the queue
	Kept    string            // where the state is, if no command above names it
	Unused  []string          // hosts of credentials that no request was sent to
	List    bool              // the records are a list of URLs that nobody writes any more
	Lines   int64             // URLs in that list
}

// Write writes the totals, what went wrong, what limits each host and why it is idle, and the incidents of the hosts
// that had most of them. The text is safe for a terminal.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	r.wrap(&b, r.headline())
	all, margin := r.facts(), 0
	aligned := func(f fact) bool {
		return r.Columns >= cli.UsualWidth*3/4 && f.name != "" && len(f.name) <= longestFact
	}
	for _, f := range all {
		if aligned(f) {
			margin = max(margin, len(f.name)+4)
		}
	}
	for _, f := range all {
		switch {
		case f.name == "":
			r.wrap(&b, "    "+f.text)
		case !aligned(f):
			r.wrap(&b, "  "+f.name+": "+f.text)
		case f.command:
			fmt.Fprintf(&b, "%-*s%s\n", margin, "  "+f.name+":", cli.OneLine(f.text))
		default:
			cli.Hanging(&b, "  "+f.name+":", f.text, margin, r.Columns)
		}
	}
	if len(r.Snap.Hosts) > 0 {
		b.WriteString("\n")
		cli.Layout(&b, r.hostColumns(), r.Columns)
		if more := r.Snap.Frontier.Hosts - reportHosts; more > 0 {
			fmt.Fprintf(&b, "and %s\n", cli.Plural(more, "more host"))
		}
	}
	r.writeIncidents(&b)
	_, err := io.WriteString(w, cli.Clean(b.String()))
	return err
}

func (r *Report) wrap(b *strings.Builder, line string) { cli.Indent(b, line, "    ", r.Columns) }

// headline returns how the crawl ended, why if the state does not say it, and how much it obtained.
func (r *Report) headline() string {
	s := r.Snap
	state, rate, retries := s.State.String(), "", ""
	switch s.State {
	case pipeline.EndNone, pipeline.EndDone, pipeline.EndBlocked, pipeline.EndFailed: // errors are reported elsewhere
	case pipeline.EndUnruled:
		state = pipeline.EndBlocked.String()
	default:
		state += " (" + s.Reason + ")"
	}
	if s.ElapsedSeconds >= 1 { // the rate of a shorter crawl means nothing
		rate = fmt.Sprintf(" (%.1f/s)", float64(s.Pages)/s.ElapsedSeconds)
	}
	if s.Retries > 0 {
		retries = ", " + Retries(s.Retries)
	}
	return fmt.Sprintf("%s: %s in %s%s, %s%s%s", cmp.Or(r.Over, state), cli.Plural(s.Pages, "page"),
		cli.Seconds(s.ElapsedSeconds), rate, cli.Size(s.Bytes), failed(s.Errors), retries)
}

// failed returns ", " and how many URLs failed, for this report and 'crawl report'; "" if none did.
func failed(n int64) string {
	if n == 0 {
		return ""
	}
	return ", " + cli.Plural(n, "error")
}

// Retries returns a number of retries in words.
func Retries(n int64) string { return cli.Plural(n, "retry") }

type fact struct {
	name    string // empty means that it belongs to the fact before it
	text    string
	command bool // it is to be copied, so it is not wrapped
}

type facts []fact

func (l *facts) add(worth bool, name, format string, args ...any) {
	if worth {
		*l = append(*l, fact{name: name, text: fmt.Sprintf(format, args...)})
	}
}

// counts adds a total and its parts, the largest first. Without counts it adds nothing.
func (l *facts) counts(name string, counts map[string]int64) {
	total, of := tallied(counts)
	l.add(len(counts) > 0, name, "%s (%s)", cli.Count(total), strings.Join(of, ", "))
}

// facts returns what there is to say about the whole crawl. It leaves out what is zero.
func (r *Report) facts() (l facts) {
	s := r.Snap
	// URLs in flight at the end were given up, and wait for the resume like those in the queue.
	left := s.Frontier.Queued + s.Frontier.Leased
	l.add(left > 0 && s.State != pipeline.EndNone, "left in the queue", "%s%s", cli.Plural(left, "URL"), r.Left)
	for _, f := range []fact{{"resume with", r.GoOn, true}, {"see details with", r.Closer, true}} {
		if f.text != "" {
			l = append(l, f)
		}
	}
	l.add(r.Before > 0, "earlier runs", "%s", cli.Plural(r.Before, "URL"))
	inAll := ""
	if r.InAll > s.Records {
		inAll = ", " + cli.Count(r.InAll) + " with those of earlier runs"
	}
	l.add(r.Items != "", "items", "%s", r.Items)
	l.add(r.Pages != "", "Markdown", "%s", r.Pages)
	l.add(r.Records != "" && r.List, "URLs", "%s in %s", cli.Count(r.Lines), r.Records)
	l.add(r.Records != "" && !r.List, "records", "%s in %s%s", cli.Count(s.Records), r.Records, inAll)
	l.add(r.Archive != "", "archives", "%s", r.Archive)
	l.add(r.Kept != "", "state", "%s", r.Kept)
	l.round(s, r.Closer)
	l.add(r.Events != "", "events", "%s", r.Events)
	l.add(r.Skipped != "", "left out", "%s", r.Skipped)
	l.requests(s)
	l.counts("links not followed", s.OutOfScope)
	l.counts("links dropped", s.Dropped)
	l.counts("links to probable traps", s.Suspected) // these were followed
	l.add(s.Trapped > 0, "probable traps", "%s skipped (to fetch them: --no-traps)", cli.Plural(s.Trapped, "URL"))
	l.duplicates(s.Duplicates)
	l.add(s.Unruled > 0, "given up", "%s, as robots.txt could not be fetched", cli.Plural(s.Unruled, "URL"))
	l.add(s.OfURL > 0, "failed", "%s for single URLs of hosts that served others", cli.Plural(s.OfURL, "request"))
	l.add(s.Refused > 0, "disallowed", "%s, by robots.txt", cli.Plural(s.Refused, "URL"))
	l.add(s.Unindexed > 0, "not recorded", "%s, by noindex", cli.Plural(s.Unindexed, "page"))
	l.add(s.Rendered > 0, "rendered", "%s", cli.Plural(s.Rendered, "page"))
	if s.Scripted > 0 && 20*s.Scripted >= s.Pages { // fewer than one page in twenty are not worth a line
		l.add(true, "empty without scripts", "%s, as it seems", cli.Plural(s.Scripted, "page"))
		l = append(l, fact{"to render them", "the same command with --render auto; one of them: " + s.ScriptedURL, true})
	}
	l.add(r.Unused != nil, "passwords never sent", "no request went to %s, as --auth names it", strings.Join(r.Unused, ", "))
	l.add(s.Frontier.Hosts > 1, "hosts", "%s%s", cli.Count(s.Frontier.Hosts), circuits(&s.Limiter))
	return l
}

// round adds how the pages of a later round differ from those of the round before, and the command that lists them.
func (l *facts) round(s *pipeline.Snapshot, closer string) {
	var parts []string
	for _, change := range []frontier.Change{frontier.Appeared, frontier.Changed, frontier.Gone, frontier.Unchanged} {
		if n := s.Changes[string(change)]; n > 0 {
			parts = append(parts, cli.Count(n)+" "+string(change))
		}
	}
	text := cmp.Or(strings.Join(parts, ", "), "nothing is known to have changed")
	if closer != "" && (len(parts) > 1 || len(parts) == 1 && s.Changes[string(frontier.Unchanged)] == 0) {
		text += "; which: " + closer
	}
	l.add(s.Round != 0, fmt.Sprintf("round %d", s.Round), "%s", text)
}

// duplicates adds how many pages repeat others, and the pages that are repeated most often.
func (l *facts) duplicates(t *neardup.Totals) {
	if t == nil {
		return
	}
	counts := map[string]int64{"exact": t.Exact, "near": t.Near}
	maps.DeleteFunc(counts, func(_ string, n int64) bool { return n == 0 })
	if l.counts("repeated pages", counts); len(counts) == 0 {
		return
	}
	for _, c := range t.Clusters[:min(len(t.Clusters), reportClusters)] {
		l.add(true, "", "%s: %s", cli.Plural(c.Exact+c.Near, "repetition"), c.URL)
	}
}

// requests adds the number of requests and their outcomes. Requests for robots.txt and sitemaps are counted separately:
// most hosts have no sitemap, so a client_error there is not an error of the site.
func (l *facts) requests(s *pipeline.Snapshot) {
	if len(s.Helpers) == 0 {
		l.counts("requests", s.Outcomes)
		return
	}
	pages := make(map[string]int64, len(s.Outcomes))
	for class, all := range s.Outcomes {
		if n := all - s.Helpers[class]; n > 0 {
			pages[class] = n
		}
	}
	n, of := tallied(pages)
	helpers, ofHelpers := tallied(s.Helpers)
	title := "requests"
	if n > 0 {
		l.add(true, title, "%s for pages (%s)", cli.Count(n), strings.Join(of, ", "))
		title = "besides"
	}
	l.add(true, title, "%s for robots.txt and sitemaps (%s)", cli.Count(helpers), strings.Join(ofHelpers, ", "))
}

// tallied returns the sum of counts and its parts in words, the largest first.
func tallied(counts map[string]int64) (total int64, of []string) {
	names := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	for i, name := range names {
		total += counts[name]
		names[i] = cli.Count(counts[name]) + " " + name
	}
	return total, names
}

// circuits returns how many hosts have an open or half-open circuit, which the table of a large crawl may not show; ""
// if none has.
func circuits(l *ratelimit.LimiterSnapshot) string {
	var parts []string
	if l.Open > 0 {
		parts = append(parts, cli.Plural(l.Open, "open circuit"))
	}
	if l.HalfOpen > 0 {
		parts = append(parts, cli.Plural(l.HalfOpen, "half-open circuit"))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// hostColumns joins what the frontier and the limiter know about each host. The columns host, URLs, queued and "limited
// by" are not dropped for lack of width.
func (r *Report) hostColumns() cli.Rows {
	// URLs counts pages that were requested, whatever their status. Failed is the share of the last requests that had no
	// response or were refused; an error is a URL whose record has one, such as a 404.
	t := cli.Columns("<host", "URLs", "queued=0", "active=0~2", "rate/s=-~6", "avg ms=-~3", "p95 ms=-~1", "failed=0%~5",
		"<circuit=closed~4", "<limited by=-")
	s := r.Snap
	for i := range s.Hosts[:min(len(s.Hosts), reportHosts)] {
		h := &s.Hosts[i]
		d := limitOf(s, h.Host)
		name := cli.Cut(cmp.Or(r.Names[h.Host], h.Host), longestHost(r.Columns))
		rate, avg, p95, errs, state := cli.Unknown, cli.Unknown, cli.Unknown, "0%", "closed"
		if d != nil {
			rate, avg, p95 = fmt.Sprintf("%.2f", d.FillRate), fmt.Sprintf("%.0f", d.AvgLatencyMS), fmt.Sprintf("%.0f", d.P95LatencyMS)
			errs, state = fmt.Sprintf("%.0f%%", 100*d.ErrorRate), d.State.String()
		}
		t.Row(name, cli.Count(h.Pages), cli.Count(h.Queued), cli.Count(h.InFlight), rate, avg, p95, errs, state, waiting(s, h, d))
	}
	return t
}

// limitOf returns what the limiter knows about a host, or nil if the snapshot does not list it among the hosts used
// last.
func limitOf(s *pipeline.Snapshot, host string) *ratelimit.DomainSnapshot {
	i := slices.IndexFunc(s.Limiter.Top, func(d ratelimit.DomainSnapshot) bool { return d.Domain == host })
	if i < 0 {
		return nil
	}
	return &s.Limiter.Top[i]
}

// waiting returns what limits a host and how long it is idle because of that. d may be nil.
func waiting(s *pipeline.Snapshot, h *frontier.HostState, d *ratelimit.DomainSnapshot) string {
	limit := ""
	if d != nil {
		limit = d.Reason
		// The rate has a column of its own.
		if before, rest, ok := strings.Cut(limit, "/s: "); ok && d.LimitedBy == ratelimit.LimitLearned && !strings.Contains(before, " ") {
			limit = rest
		}
	}
	// The frontier has sentences about robots.txt. For everything else it has only one-word names.
	reason := limit
	if strings.Contains(h.Reason, " ") || limit == "" {
		reason = cmp.Or(h.Reason, limit, cli.Unknown)
	}
	wait := h.Until.Sub(s.Time)
	if h.Queued == 0 || wait < time.Second {
		return reason
	}
	// The duration comes first, since long reasons are cut at their end. The limiter's sentences for these reasons
	// would repeat it.
	switch {
	case reason != limit:
	case d.LimitedBy == ratelimit.LimitRetryAfter:
		reason = "Retry-After"
	case d.LimitedBy == ratelimit.LimitBreaker:
		reason = "circuit " + d.State.String()
	case d.LimitedBy == ratelimit.LimitQuota:
		reason = "quota used up"
	}
	return "idle for " + cli.Seconds(wait.Seconds()) + ": " + reason
}

// writeIncidents writes, for the hosts with the most incidents, why their rate is what it is and what happened last.
func (r *Report) writeIncidents(b *strings.Builder) {
	s := r.Snap
	ago := func(e *ratelimit.Event) string { return cli.Seconds(s.Time.Sub(e.Time).Seconds()) + " ago: " + e.Text }
	hosts, groups := worstHosts(s), s.Limiter.GroupEvents
	if len(hosts)+len(groups) == 0 {
		return
	}
	b.WriteString("\n")
	for _, e := range groups[max(len(groups)-incidentEvents, 0):] {
		r.wrap(b, e.Domain+": "+ago(&e))
	}
	for _, d := range hosts {
		r.wrap(b, cli.Cut(cmp.Or(r.Names[d.Domain], d.Domain), longestHost(r.Columns))+": "+d.Reason)
		for _, e := range worthTelling(d.Events) {
			r.wrap(b, "  "+ago(&e))
		}
	}
}

// worthTelling returns the last events without those that the next event implies: that a circuit is half-open, and the
// Retry-After of a refusal at the same time.
func worthTelling(events []ratelimit.Event) []ratelimit.Event {
	var told []ratelimit.Event
	for i, e := range events {
		said := i < len(events)-1 && (e.Cause == control.CauseHalfOpen || e.Cause == control.CauseRetryAfter && events[i+1].Time.Equal(e.Time))
		if !said {
			told = append(told, e)
		}
	}
	return told[max(len(told)-incidentEvents, 0):]
}

// worstHosts returns the hosts with the most incidents, the worst first.
func worstHosts(s *pipeline.Snapshot) []*ratelimit.DomainSnapshot {
	var hosts []*ratelimit.DomainSnapshot
	for i := range s.Limiter.Top {
		if incidents(&s.Limiter.Top[i]) > 0 {
			hosts = append(hosts, &s.Limiter.Top[i])
		}
	}
	slices.SortFunc(hosts, func(x, y *ratelimit.DomainSnapshot) int {
		return cmp.Or(cmp.Compare(incidents(y), incidents(x)), cmp.Compare(x.Domain, y.Domain))
	})
	return hosts[:min(len(hosts), incidentHosts)]
}

// incidents returns how many of a host's last events were bad ones. A circuit that is not closed, or a quota that is
// used up, outweighs all events. Retry-After is not counted, because the refusal that brought it is.
func incidents(d *ratelimit.DomainSnapshot) int {
	n := 0
	if d.State != breaker.Closed && len(d.Events) > 0 || d.LimitedBy == ratelimit.LimitQuota {
		n = len(d.Events) + 1
	}
	for _, e := range d.Events {
		switch e.Cause {
		case control.CauseRefused, control.CauseFailures, control.CauseForbidden, control.CauseLatency, control.CauseTrial:
			n++
		}
	}
	return n
}

// StatsTail is how many bytes at the end of a stats file are read. A snapshot is well below 100 KiB.
const StatsTail = 1 << 20

// LastSnapshot reads the last snapshot of a stats file. If a crash has cut off the last line, it returns the line
// before. It is an error if the file has no snapshot.
func LastSnapshot(r io.Reader) (*pipeline.Snapshot, error) {
	if seeker, ok := r.(io.Seeker); ok {
		// A pipe, which cannot seek, and a file shorter than the tail are read from their beginning.
		_, _ = seeker.Seek(-StatsTail, io.SeekEnd)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, cli.Cause(err)
	}
	var problem error // of the newest line
	for _, line := range slices.Backward(bytes.Split(data, []byte("\n"))) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var saved struct {
			pipeline.Snapshot
			State *pipeline.End `json:"state"` // nil means that the line is something else
		}
		err := json.Unmarshal(line, &saved)
		if err == nil && saved.State == nil {
			err = errors.New("it has no state")
		}
		if err == nil {
			saved.Snapshot.State = *saved.State
			return &saved.Snapshot, nil
		}
		problem = cmp.Or(problem, err)
	}
	if problem != nil {
		return nil, fmt.Errorf("not a stats file, as `crawl --stats FILE` writes it: %w", problem)
	}
	return nil, errors.New("the file is empty: it is what `crawl --stats FILE` writes")
}
