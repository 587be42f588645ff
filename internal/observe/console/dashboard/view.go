package dashboard

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// Frame is what every page but the login has around it.
type Frame struct {
	Title      string
	State      string // a word: running, paused, or how it ended
	Reason     string // the end's; empty while it runs
	Now        time.Time
	Elapsed    time.Duration
	Paused     bool
	Over       bool // it has ended: there is nothing to steer
	LoggedIn   bool // by the form, so that one may leave
	Checkpoint bool // the crawl is kept, so that there can be one
	Span       string
}

// Figure is a number with its name.
type Figure struct {
	Name, Value string
	Note        string // a few words more; empty is none
}

// Count is how often something was seen. Percent is its part of the largest, for a meter.
type Count struct {
	Name    string
	N       int64
	Note    string
	Percent int
}

// Overview is the first page.
type Overview struct {
	Frame
	Figures  []Figure
	Charts   []Chart
	Outcomes Counts // requests by class
	Waits    Counts // hosts with work by what they wait for
	Working  string // what the workers do, as a sentence
	Fleet    string // of a crawl of several processes, in sentences; empty: it is alone
	Changed  Changed
	Table    Table
	Errors   []pipeline.Seen // the newest first
	Pages    []pipeline.Seen // the newest first
}

// Changed is what those who steer have put in force.
type Changed struct {
	Blocked          []Order  // hosts
	Ceilings         []Order  // hosts with their maximum
	Unlisted         int      // of both, too many to list
	Include, Exclude []string // the patterns of the scope, changed or not
}

// Order is one that is in force for a host.
type Order struct{ Host, Value string }

// Host is the page of one host.
type Host struct {
	Frame
	Host    string
	Known   bool   // something is known of it
	State   State  // what the table shows
	Reason  string // for its rate, as a sentence
	Waits   string // what its URLs wait for; empty is nothing
	Blocked bool   // by whoever steers
	MaxRPS  string // the ceiling it was given here; empty is none
	Figures []Figure
	Charts  []Chart
	Events  []ratelimit.Event // the newest last
}

// KindOf is what an event means for the pace of its host.
func KindOf(e *ratelimit.Event) Kind {
	switch {
	case e.ToRPS > e.FromRPS:
		return Rise
	case e.ToRPS < e.FromRPS:
		return Cut
	}
	return Note
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return ratelimit.Domain(u.Host)
}

// HostPath is where the page of a host is.
func HostPath(host string) string { return "/hosts/" + url.PathEscape(host) }

// State is what a host does, in one word.
type State string

// The states.
const (
	Active   State = "active"   // it is asked, at its pace
	Paused   State = "paused"   // nothing is sent: the crawl is paused, or the proxy fails
	Refusing State = "refusing" // it said "not now", or its quota is used up
	Failing  State = "failing"  // its circuit is not closed
	Blocked  State = "blocked"  // by whoever steers
	Idle     State = "idle"     // no work is left
)

// States are all, in the order in which a filter offers them.
func States() []State { return []State{Active, Paused, Refusing, Failing, Blocked, Idle} }

// Row is a host in the table.
type Row struct {
	Host      string
	State     State
	Reason    string
	Queued    int
	Pages     int
	Rate      float64 // allowed, per second
	Limit     float64 // of the host, per second; zero if it is not known
	LatencyMS float64 // zero before the first answer
	Failures  int     // in a row
	Why       string  // the rate is what it is, as a sentence; empty if nobody knows
	Rates     Chart   // of the last minutes
}

// Table is some of the hosts.
type Table struct {
	Rows     []Row
	Hosts    int // in all
	Matching int // that the search and the filter leave
	Page     int // from 1
	Pages    int
	Query    string
	State    State // empty is any
	Sort     string
	Desc     bool
	Span     string        // of the charts, kept in the links
	Taken    time.Time     // when the hosts were listed
	Left     int           // hosts that were too many to list
	counts   map[State]int // hosts that the search leaves
}

// Filter leads to the hosts in one state.
type Filter struct {
	Name, Query string
	N           int
	Current     bool
}

// Filters leads to all hosts, and to those in each state that hosts are in.
func (t Table) Filters() []Filter {
	all := Filter{Name: "all", Current: t.State == ""}
	list := make([]Filter, 1)
	to := t // the same hosts in another state
	for _, s := range States() {
		n := t.counts[s]
		all.N += n
		if to.State = s; n > 0 || s == t.State {
			list = append(list, Filter{string(s), to.At(1), n, s == t.State})
		}
	}
	to.State = ""
	all.Query = to.At(1)
	list[0] = all
	return list
}

// Columns are the heads.
func (t Table) Columns() []Column { return columns() }

// First is the number of the first row, from 1.
func (t Table) First() int { return (t.Page-1)*PageSize + 1 }

// Last is the number of the last row.
func (t Table) Last() int { return t.First() + len(t.Rows) - 1 }

// By is the query that sorts by a column: the other way round if it does already.
func (t Table) By(c Column) string {
	desc := c.Numeric
	if t.Sort == c.Key {
		desc = !t.Desc
	}
	return t.query(c.Key, desc, 1)
}

// At is the query of another page.
func (t Table) At(page int) string { return t.query(t.Sort, t.Desc, page) }

// Next and Previous are those beside this one.
func (t Table) Next() string { return t.At(t.Page + 1) }

// Previous is the query of the page before.
func (t Table) Previous() string { return t.At(t.Page - 1) }

func (t Table) query(sort string, desc bool, page int) string {
	v := url.Values{"sort": {sort}, "dir": {"asc"}}
	if desc {
		v.Set("dir", "desc")
	}
	for name, value := range map[string]string{"q": t.Query, "state": string(t.State), "span": t.Span} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if page > 1 {
		v.Set("page", strconv.Itoa(page))
	}
	return "?" + v.Encode()
}

// Order is what a screen reader is told of a column: ascending, descending or none.
func (t Table) Order(c Column) string {
	switch {
	case t.Sort != c.Key:
		return "none"
	case t.Desc:
		return "descending"
	}
	return "ascending"
}

// Counts is a table of counts with its heads.
type Counts struct {
	Head, Unit string
	Counts     []Count
}

// PageSize is how many hosts a page of the table has: a screen or two.
const PageSize = 20

// maxQuery is the longest search, in bytes: as long as a host's name with its port.
const maxQuery = 260

// Column is one of the table.
type Column struct {
	Key, Name string
	Numeric   bool // begins with the largest
	compare   func(a, b Row) int
}

func by[T cmp.Ordered](value func(Row) T) func(a, b Row) int {
	return func(a, b Row) int { return cmp.Compare(value(a), value(b)) }
}

func columns() []Column {
	return []Column{
		{"host", "Host", false, by(func(r Row) string { return r.Host })},
		{"state", "State", false, by(func(r Row) State { return r.State })},
		{"rate", "Rate/s", true, by(func(r Row) float64 { return r.Rate })},
		{"limit", "Limit", true, by(func(r Row) float64 { return r.Limit })},
		{"queued", "Queued", true, by(func(r Row) int { return r.Queued })},
		{"pages", "URLs", true, by(func(r Row) int { return r.Pages })},
		{"latency", "Latency", true, by(func(r Row) float64 { return r.LatencyMS })},
	}
}

// defaultSort is the longest queue first: where the crawl has most to do.
const defaultSort = "queued"

// ParseTable reads what a person asked of the table. What makes no sense is as if it had not
// been said: the address of a page is typed, shared and cut short.
func ParseTable(q url.Values) Table {
	t := Table{Query: strings.ToLower(strings.TrimSpace(q.Get("q"))), Sort: defaultSort, Desc: true, Page: 1}
	if len(t.Query) > maxQuery {
		t.Query = strings.ToValidUTF8(t.Query[:maxQuery], "")
	}
	if s := State(q.Get("state")); slices.Contains(States(), s) {
		t.State = s
	}
	for _, c := range columns() {
		if c.Key == q.Get("sort") {
			t.Sort, t.Desc = c.Key, c.Numeric
			if dir := q.Get("dir"); dir != "" {
				t.Desc = dir == "desc"
			}
		}
	}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && n > 1 {
		t.Page = n
	}
	return t
}

// Fill chooses the rows of the page. It keeps nothing of rows, and changes nothing in it.
func (t *Table) Fill(rows []Row) {
	t.Hosts = len(rows)
	match := make([]Row, 0, len(rows))
	t.counts = make(map[State]int)
	for _, r := range rows {
		if !strings.Contains(r.Host, t.Query) {
			continue
		}
		if t.counts[r.State]++; t.State == "" || t.State == r.State {
			match = append(match, r)
		}
	}
	all := columns()
	column := all[max(0, slices.IndexFunc(all, func(c Column) bool { return c.Key == t.Sort }))]
	slices.SortFunc(match, func(a, b Row) int {
		c := column.compare(a, b)
		if t.Desc {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.Host, b.Host)) // one order, so that pages do not overlap
	})
	t.Matching = len(match)
	t.Pages = max(1, (len(match)+PageSize-1)/PageSize)
	t.Page = min(max(t.Page, 1), t.Pages)
	from := (t.Page - 1) * PageSize
	t.Rows = slices.Clone(match[from:min(from+PageSize, len(match))])
}

// Whole writes a count with its thousands apart: 1 234 567, by spaces that do not break.
func Whole(n int64) string { return strings.ReplaceAll(humanize.Comma(n), ",", "\u202f") }

// Plural writes a count and its noun: 1 page, 2 pages, 2 retries.
func Plural(n int64, noun string) string {
	return Whole(n) + " " + english.PluralWord(int(n), noun, "")
}

// Number writes a measure with as many digits as say something: 0.25, 3.5, 120.
func Number(v float64) string {
	scale := 100.0
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1000:
		return Whole(int64(math.Round(v)))
	case a >= 100:
		scale = 1
	case a >= 10:
		scale = 10
	}
	return strconv.FormatFloat(math.Round(v*scale)/scale, 'f', -1, 64)
}

// Bytes writes an amount of data in decimal units.
func Bytes(n int64) string {
	return strings.ReplaceAll(humanize.Bytes(uint64(max(n, 0))), " ", "\u202f")
}

func since(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	switch {
	case s >= 86400:
		return strconv.FormatInt(s/86400, 10) + " d " + strconv.FormatInt(s%86400/3600, 10) + " h"
	case s >= 3600:
		return strconv.FormatInt(s/3600, 10) + " h " + strconv.FormatInt(s%3600/60, 10) + " min"
	case s >= 60:
		return strconv.FormatInt(s/60, 10) + " min " + strconv.FormatInt(s%60, 10) + " s"
	}
	return strconv.FormatInt(s, 10) + " s"
}

// clockTime is the time of day of an instant, in UTC as everywhere in the output.
func clockTime(t time.Time) string { return t.UTC().Format("15:04:05") }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func lines(list []string) string { return strings.Join(list, "\n") }
