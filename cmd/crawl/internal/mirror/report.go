package mirror

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/mirror/rewrite"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// What a round has found out about a URL. Empty means nothing new.
const (
	changeNew     = "new"
	changeChanged = "changed"
	changeGone    = "gone"
)

// Report is what a round has done.
type Report struct {
	Dir      string `json:"dir"`
	Entry    string `json:"entry,omitempty"` // the file to open first, with slashes
	Round    int    `json:"round"`
	Complete bool   `json:"complete"` // the round has seen everything

	Pages int   `json:"pages"`
	Files int   `json:"files"` // other than pages
	Bytes int64 `json:"bytes"` // of pages and files, as received

	New       int  `json:"new"`
	Changed   int  `json:"changed"`
	Unchanged int  `json:"unchanged"`
	Gone      int  `json:"gone"`     // the host answered 404 or 410
	Unlinked  int  `json:"unlinked"` // no link leads there any more; known only if Complete
	Deleted   bool `json:"deleted"`  // those of Gone and Unlinked were deleted

	Failures []Failure `json:"failures,omitempty"`
}

// Failure is a URL that could not be fetched. Kept says that the copy still has its earlier version.
type Failure struct {
	URL    string `json:"url"`
	Status int    `json:"status,omitempty"`
	Err    string `json:"error,omitempty"`
	From   string `json:"from,omitempty"`
	Kept   bool   `json:"kept,omitempty"`
}

// report counts what the round has done, before anything is deleted.
func (m *Mirror) report() *Report {
	r := &Report{Dir: m.o.Dir, Round: m.round, Complete: m.full, Deleted: m.full && m.o.Delete && !m.unsure.Load()}
	for _, e := range m.index.all() {
		if e.File != "" && m.keeps(e.Type) {
			if r.Bytes += e.Size; e.Kind == rewrite.HTML {
				r.Pages++
			} else {
				r.Files++
			}
		}
		switch {
		case e.Round != m.round:
			if e.File != "" && m.full {
				r.Unlinked++
			}
		case e.Change == changeNew:
			r.New++
		case e.Change == changeChanged:
			r.Changed++
		case e.Change == changeGone:
			r.Gone++
		case e.File != "" && (e.Status == http.StatusNotModified || e.Status/100 == 2):
			r.Unchanged++
		}
		if e.Round == m.round && (e.Err != "" || e.Status >= 400) {
			r.Failures = append(r.Failures, Failure{URL: e.URL, Status: e.Status, Err: e.Err, From: e.From, Kept: e.File != "" && (!r.Deleted || e.Change != changeGone)})
		}
	}
	slices.SortStableFunc(r.Failures, func(a, b Failure) int { return cmp.Compare(b.Status, a.Status) })
	return r
}

// cause is why one URL, or several of a host, got no response.
type cause struct {
	Failure
	host, text string
	n          int
}

// causes returns the failures, those of a host that got no response for the same reason as one.
func (r *Report) causes() (all []cause) {
	at := make(map[[2]string]int) // in all, by host and text
	for _, f := range r.Failures {
		c := cause{f, canonical.Restore(f.URL).Host(), cmp.Or(f.Err, fmt.Sprint(f.Status)), 1}
		if strings.HasPrefix(f.Err, "address_denied: ") {
			c.text = "it has a private address; to have it asked, give --allow-private"
		}
		key := [2]string{c.host, c.text}
		if i, known := at[key]; known && f.Err != "" {
			all[i].n++
			continue
		}
		at[key] = len(all)
		all = append(all, c)
	}
	return all
}

// shownFailures is how many failures Write lists.
const shownFailures = 10

// Write writes the report for people.
func (r *Report) Write(w io.Writer) {
	var b strings.Builder
	say := func(when bool, format string, args ...any) {
		if when {
			fmt.Fprintf(&b, format, args...)
		}
	}
	all := r.causes()
	alike := slices.ContainsFunc(all, func(c cause) bool { return c.n > 1 })
	say(r.Complete && alike, "done, but not all files could be had: ")
	say(r.Complete && !alike, "done: ")
	say(!r.Complete, "not complete; the same command goes on: ")
	say(true, "%s and %s, %s in %s\n", cli.Plural(r.Pages, "HTML page"), cli.Plural(r.Files, "other file"), cli.Size(r.Bytes), r.Dir)
	say(true, "  this round: %s new, %s changed, %s unchanged, %s gone", cli.Count(r.New), cli.Count(r.Changed), cli.Count(r.Unchanged), cli.Count(r.Gone))
	say(r.Unlinked > 0, ", %s that nothing leads to", cli.Count(r.Unlinked))
	say(r.Gone+r.Unlinked > 0 && r.Deleted, " (deleted)")
	say(r.Gone+r.Unlinked > 0 && !r.Deleted, " (kept; --delete removes them once all is seen)")
	for _, c := range all[:min(len(all), shownFailures)] {
		say(c.n == 1, "\n  not had: %s: %s", c.URL, c.text)
		say(c.n > 1, "\n  not had: %d files of %s: %s; --json lists them", c.n, c.host, c.text)
		say(c.n == 1 && c.From != "", " (on %s)", c.From)
		say(c.n == 1 && c.Kept, "; the copy of before stays")
	}
	more := len(all) - shownFailures
	say(more > 0, "\n  and %s more", cli.Count(more))
	say(r.Entry != "", "\n  open: %s", filepath.Join(r.Dir, "index.html"))
	cli.Say(w, "%s\n", b.String())
}
