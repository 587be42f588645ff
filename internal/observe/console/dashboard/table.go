package dashboard

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// PageSize is how many hosts a page of the table has: some screens, and a few kilobytes.
const PageSize = 50

// maxQuery is the longest search, in bytes: as long as a host's name with its port.
const maxQuery = 260

// Column is one of the table.
type Column struct {
	Key, Name string
	Numeric   bool // begins with the largest
}

func columns() []Column {
	return []Column{
		{"host", "Host", false},
		{"state", "State", false},
		{"queued", "Queued", true},
		{"in_flight", "In flight", true},
		{"pages", "Fetched", true},
		{"rate", "Rate/s", true},
		{"latency", "Latency", true},
		{"failures", "Failures", true},
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

// Fill chooses the rows of the page. It keeps nothing of all, and changes nothing in it.
func (t *Table) Fill(all []Row) {
	t.Hosts = len(all)
	match := make([]Row, 0, len(all))
	for _, r := range all {
		if strings.Contains(r.Host, t.Query) && (t.State == "" || t.State == r.State) {
			match = append(match, r)
		}
	}
	less := compare(t.Sort)
	slices.SortFunc(match, func(a, b Row) int {
		c := less(a, b)
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

// compare is the ascending order of a column.
func compare(key string) func(a, b Row) int {
	switch key {
	case "state":
		return func(a, b Row) int { return cmp.Compare(a.State, b.State) }
	case "queued":
		return func(a, b Row) int { return cmp.Compare(a.Queued, b.Queued) }
	case "in_flight":
		return func(a, b Row) int { return cmp.Compare(a.InFlight, b.InFlight) }
	case "pages":
		return func(a, b Row) int { return cmp.Compare(a.Pages, b.Pages) }
	case "rate":
		return func(a, b Row) int { return cmp.Compare(a.Rate, b.Rate) }
	case "latency":
		return func(a, b Row) int { return cmp.Compare(a.LatencyMS, b.LatencyMS) }
	case "failures":
		return func(a, b Row) int { return cmp.Compare(a.Failures, b.Failures) }
	}
	return func(a, b Row) int { return cmp.Compare(a.Host, b.Host) }
}
