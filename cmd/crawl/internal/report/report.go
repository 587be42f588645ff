// Package report tells people how a crawl went: at its end or while it runs, by its state, and
// afterwards, by its records.
package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// reportHosts bounds the table: more rows than this nobody reads at the end of a crawl.
const reportHosts = 20

// longestHost is where the name of a host is cut, so that one long name does not push
// every column off a screen so wide. DNS allows 253 characters; few hosts have thirty.
func longestHost(columns int) int { return min(max(columns/3, 24), 40) }

// Report is what a person is told of a crawl, at its end or while it goes.
type Report struct {
	Snap    *crawl.Snapshot
	Columns int               // of the screen
	Records string            // where the records are; empty = not told
	Archive string            // where the archives are; empty = not told
	Events  string            // how many events are where; empty = not told
	Names   map[string]string // what to call hosts; nil = by their names
	Over    string            // how it ended, if not in the words of the crawl
	InAll   int64             // records in that file; zero = not known
	Before  int64             // pages of earlier runs
	GoOn    string            // the command that goes on with the crawl; empty = not told
	Closer  string            // the command that tells more of it; empty = not told
	Kept    string            // where its state is, if that is not said otherwise
}

// Write tells totals, what went wrong, for each host what limits it and why it is idle,
// and of those that gave trouble what happened.
func (r *Report) Write(w io.Writer) error {
	var totals, b strings.Builder
	r.writeTotals(&totals)
	r.alignFacts(&b, totals.String())
	r.writeHosts(&b)
	r.writeIncidents(&b)
	_, err := io.WriteString(w, human.Clean(b.String()))
	return err
}

// longestFact is the longest name of a fact that others are moved to the right for.
const longestFact = 20

// copied are the facts that are commands, and stay whole.
var copied = []string{"resume with", "see details with"}

// alignFacts is wrapLines for a headline and facts below it, a name and what there is to say
// each: that begins in one column, unless the screen is too narrow for two.
func (r *Report) alignFacts(b *strings.Builder, text string) {
	const indent, gap = "  ", ": "
	margin := 0
	fact := func(line string) (name, value string, ok bool) {
		if r.Columns < terminal.UsualWidth*3/4 || !strings.HasPrefix(line, indent) || strings.HasPrefix(line, indent+" ") {
			return "", "", false
		}
		name, value, ok = strings.Cut(strings.TrimSpace(line), gap)
		return name, value, ok && len(name) <= longestFact
	}
	for line := range strings.Lines(text) {
		if name, _, ok := fact(line); ok {
			margin = max(margin, len(indent+name+gap))
		}
	}
	for line := range strings.Lines(text) {
		name, value, ok := fact(line)
		if !ok {
			r.wrapLines(b, line)
			continue
		}
		parts := []string{value}
		if !slices.Contains(copied, name) {
			parts = human.Wrap(value, r.Columns-margin)
		}
		fmt.Fprintf(b, "%-*s%s\n", margin, indent+name+gap, parts[0])
		for _, part := range parts[1:] {
			fmt.Fprintf(b, "%*s%s\n", margin, "", part)
		}
	}
}

// wrapLines breaks lines that are too long, and shows where they go on.
func (r *Report) wrapLines(b *strings.Builder, text string) {
	const further = "    "
	for line := range strings.Lines(text) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		// Narrower than half a usual screen, a break in every line helps nobody.
		for _, part := range human.Wrap(line, max(r.Columns, terminal.UsualWidth/2)-len(further)) {
			b.WriteString(indent + part + "\n")
			indent = further
		}
	}
}

// writeTotals is a line that says how it went, and a line each for what else there is to
// say. What is zero is not said.
func (r *Report) writeTotals(b *strings.Builder) {
	s := r.Snap
	fmt.Fprintf(b, "%s: %s in %s%s, %s", cmp.Or(r.Over, state(s)), human.Plural(s.Pages, "page"), human.Seconds(s.ElapsedSeconds), rate(s), human.Size(s.Bytes))
	b.WriteString(failed(s.Errors))
	if s.Retries > 0 {
		fmt.Fprintf(b, ", %s", Retries(s.Retries))
	}
	b.WriteString("\n")
	// What is in flight at the end was given up, and waits for the resume as the others do.
	if left := s.Frontier.Queued + s.Frontier.Leased; left > 0 && s.State != pipeline.EndNone {
		fmt.Fprintf(b, "  left in the queue: %s\n", human.Plural(left, "URL"))
	}
	if r.GoOn != "" {
		fmt.Fprintf(b, "  resume with: %s\n", r.GoOn)
	}
	if r.Closer != "" {
		fmt.Fprintf(b, "  see details with: %s\n", r.Closer)
	}
	if r.Before > 0 {
		fmt.Fprintf(b, "  earlier runs: %s\n", human.Plural(r.Before, "page"))
	}
	if r.Records != "" {
		fmt.Fprintf(b, "  records: %s in %s", human.Count(s.Records), r.Records)
		if r.InAll > s.Records {
			fmt.Fprintf(b, ", %s with those of earlier runs", human.Count(r.InAll))
		}
		b.WriteString("\n")
	}
	if r.Archive != "" {
		fmt.Fprintf(b, "  archives: %s\n", r.Archive)
	}
	if r.Kept != "" {
		fmt.Fprintf(b, "  state: %s\n", r.Kept)
	}
	r.writeRound(b)
	if r.Events != "" {
		fmt.Fprintf(b, "  events: %s\n", r.Events)
	}
	writeRequests(b, s)
	writeCounts(b, "links not followed", s.OutOfScope)
	writeCounts(b, "links dropped", s.Dropped)
	writeCounts(b, "links to probable traps", s.Suspected) // which were followed
	if s.Trapped > 0 {
		fmt.Fprintf(b, "  probable traps: %s skipped (to fetch them: --no-traps)\n", human.Plural(s.Trapped, "URL"))
	}
	writeDuplicates(b, s.Duplicates)
	if s.Unruled > 0 {
		fmt.Fprintf(b, "  given up: %s, as robots.txt could not be fetched\n", human.Plural(s.Unruled, "URL"))
	}
	if s.OfURL > 0 {
		fmt.Fprintf(b, "  refused: %s for single URLs of hosts that served others\n", human.Plural(s.OfURL, "request"))
	}
	if s.Refused > 0 {
		fmt.Fprintf(b, "  disallowed: %s, by robots.txt\n", human.Plural(s.Refused, "URL"))
	}
	if s.Unindexed > 0 {
		fmt.Fprintf(b, "  not recorded: %s, by noindex\n", human.Plural(s.Unindexed, "page"))
	}
	if s.Frontier.Hosts > 1 {
		fmt.Fprintf(b, "  hosts: %s%s\n", human.Count(s.Frontier.Hosts), Circuits(&s.Limiter))
	}
}

// state is the beginning of the report: how the crawl ended, and why if that is not
// plain. What is an error is told by itself.
func state(s *crawl.Snapshot) string {
	switch s.State {
	case pipeline.EndNone, pipeline.EndDone, pipeline.EndBlocked, pipeline.EndFailed:
		return s.State.String()
	case pipeline.EndUnruled:
		return pipeline.EndBlocked.String()
	}
	return fmt.Sprintf("%s (%s)", s.State, s.Reason)
}

// rate is pages per second; of a blink of time it says nothing.
func rate(s *crawl.Snapshot) string {
	if s.ElapsedSeconds < 1 {
		return ""
	}
	return fmt.Sprintf(" (%.1f/s)", float64(s.Pages)/s.ElapsedSeconds)
}

// failed is how many URLs failed, here and in 'crawl report'; nothing if none did.
func failed(n int64) string {
	if n == 0 {
		return ""
	}
	return ", " + human.Plural(n, "error")
}

// Retries is a word of its own: plural knows only the letter s.
func Retries(n int64) string {
	if n == 1 {
		return "1 retry"
	}
	return human.Count(n) + " retries"
}

// writeRequests is how many requests there were and what became of them. Those for what is no page
// are apart: most hosts have no sitemap where one is looked for, and many no robots.txt, and a
// client_error there is nothing that is wrong with a page.
func writeRequests(b *strings.Builder, s *crawl.Snapshot) {
	if len(s.Helpers) == 0 {
		writeCounts(b, "requests", s.Outcomes)
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
		fmt.Fprintf(b, "  %s: %s for pages (%s)\n", title, human.Count(n), of)
		title = "besides"
	}
	fmt.Fprintf(b, "  %s: %s for robots.txt and sitemaps (%s)\n", title, human.Count(helpers), ofHelpers)
}

// writeCounts is a total and what it is made of, the most first.
func writeCounts(b *strings.Builder, title string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	total, of := tallied(counts)
	fmt.Fprintf(b, "  %s: %s (%s)\n", title, human.Count(total), of)
}

// tallied is the sum of counts, and what it is made of, the most first.
func tallied(counts map[string]int64) (total int64, of string) {
	names := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	for i, name := range names {
		total += counts[name]
		names[i] = fmt.Sprintf("%s %s", human.Count(counts[name]), name)
	}
	return total, strings.Join(names, ", ")
}

// writeHosts joins what the frontier and the limiter know of each host.
func (r *Report) writeHosts(b *strings.Builder) {
	s := r.Snap
	if len(s.Hosts) == 0 {
		return
	}
	b.WriteString("\n")
	human.Layout(b, r.hostColumns(), r.Columns)
	if more := s.Frontier.Hosts - reportHosts; more > 0 {
		fmt.Fprintf(b, "and %s\n", human.Plural(more, "more host"))
	}
}

// Circuits is how many hosts are in trouble, which the table of a large crawl, with its
// few rows, would not show.
func Circuits(l *ratelimit.LimiterSnapshot) string {
	var parts []string
	if l.Open > 0 {
		parts = append(parts, human.Plural(l.Open, "open circuit"))
	}
	if l.HalfOpen > 0 {
		parts = append(parts, human.Plural(l.HalfOpen, "half-open circuit"))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// hostColumns is the table, a column each, in the order of reading. What a host is
// known by, how much of it there is and what limits it are never left out.
func (r *Report) hostColumns() human.Rows {
	s := r.Snap
	paced := make(map[string]*ratelimit.DomainSnapshot, len(s.Limiter.Top))
	for i := range s.Limiter.Top {
		paced[s.Limiter.Top[i].Domain] = &s.Limiter.Top[i]
	}
	t := human.Rows{
		{Title: "host", Left: true},
		{Title: "URLs"}, // asked for so far, pages or not
		{Title: "queued", Dull: "0"},
		{Title: "active", Dull: "0", Keep: 2},
		{Title: "rate/s", Dull: human.Unknown, Keep: 6},
		{Title: "avg ms", Dull: human.Unknown, Keep: 3},
		{Title: "p95 ms", Dull: human.Unknown, Keep: 1},
		{Title: "errors", Dull: "0%", Keep: 5},
		{Title: "circuit", Left: true, Dull: "closed", Keep: 4},
		{Title: "limited by", Left: true, Dull: human.Unknown},
	}
	for i := range s.Hosts[:min(len(s.Hosts), reportHosts)] {
		h := &s.Hosts[i]
		t.Row(r.hostCells(h, paced[h.Host])...)
	}
	return t
}

// hostCells is one row. A host that the limiter does not know has the dull value of a
// column, or a dash where there is none.
func (r *Report) hostCells(h *frontier.HostState, d *ratelimit.DomainSnapshot) []string {
	row := []string{human.Cut(cmp.Or(r.Names[h.Host], h.Host), longestHost(r.Columns)), human.Count(h.Pages), human.Count(h.Queued), human.Count(h.InFlight)}
	if d == nil {
		return append(row, human.Unknown, human.Unknown, human.Unknown, "0%", "closed", Waiting(r.Snap, h, nil))
	}
	return append(row, fmt.Sprintf("%.2f", d.FillRate), fmt.Sprintf("%.0f", d.AvgLatencyMS),
		fmt.Sprintf("%.0f", d.P95LatencyMS), fmt.Sprintf("%.0f%%", 100*d.ErrorRate), d.State.String(),
		Waiting(r.Snap, h, d))
}

// shortReason leaves out of the limiter's sentence the rate, which has a column.
func shortReason(d *ratelimit.DomainSnapshot) string {
	if before, rest, ok := strings.Cut(d.Reason, "/s: "); ok && d.LimitedBy == ratelimit.LimitLearned && !strings.Contains(before, " ") {
		return rest
	}
	return d.Reason
}

// Waiting is what limits a host, and how long it is idle for that. d may be nil.
func Waiting(s *crawl.Snapshot, h *frontier.HostState, d *ratelimit.DomainSnapshot) string {
	limit := ""
	if d != nil {
		limit = shortReason(d)
	}
	// The frontier knows sentences about robots.txt. Of the rest it has only the names.
	reason := limit
	if strings.Contains(h.Reason, " ") || limit == "" {
		reason = cmp.Or(h.Reason, limit, human.Unknown)
	}
	wait := h.Until.Sub(s.Time)
	if h.Queued == 0 || wait < time.Second {
		return reason
	}
	// How long stands in front: the reason may be long, and is what is cut. The limiter's
	// own sentences about these two would say it again.
	switch {
	case reason != limit:
	case d.LimitedBy == ratelimit.LimitRetryAfter:
		reason = "Retry-After"
	case d.LimitedBy == ratelimit.LimitBreaker:
		reason = "circuit " + d.State.String()
	case d.LimitedBy == ratelimit.LimitQuota:
		reason = "quota used up"
	}
	return fmt.Sprintf("idle for %s: %s", human.Seconds(wait.Seconds()), reason)
}

// writeRound says how the pages of a later round differ from those before.
func (r *Report) writeRound(b *strings.Builder) {
	s := r.Snap
	if s.Round == 0 {
		return
	}
	var parts []string
	for _, change := range []frontier.Change{frontier.Appeared, frontier.Changed, frontier.Gone, frontier.Unchanged} {
		if n := s.Changes[string(change)]; n > 0 {
			parts = append(parts, human.Count(n)+" "+string(change))
		}
	}
	if parts == nil {
		parts = []string{"nothing is known to have changed"}
	}
	fmt.Fprintf(b, "  round %d: %s\n", s.Round, strings.Join(parts, ", "))
}
