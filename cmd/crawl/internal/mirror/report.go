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
)

// What became of a URL in a round; empty: nothing new.
const (
	changeNew     = "new"
	changeChanged = "changed"
	changeGone    = "gone"
)

// Report is what a round has brought.
type Report struct {
	Dir   string `json:"dir"`
	Entry string `json:"entry,omitempty"` // the file to open, by slashes
	Round int    `json:"round"`
	// Complete says that all there is was seen.
	Complete bool `json:"complete"`

	Pages int   `json:"pages"`
	Files int   `json:"files"` // that are no pages
	Bytes int64 `json:"bytes"` // of both, as they came

	New       int  `json:"new"`
	Changed   int  `json:"changed"`
	Unchanged int  `json:"unchanged"`
	Gone      int  `json:"gone"`     // the host no longer has them
	Unlinked  int  `json:"unlinked"` // nothing leads to them any more; known only of a round that is complete
	Deleted   bool `json:"deleted"`  // and both were deleted

	Failures []Failure `json:"failures,omitempty"`
}

// Failure is a URL that could not be had. Kept says that the copy of before is still there.
type Failure struct {
	URL    string `json:"url"`
	Status int    `json:"status,omitempty"`
	Err    string `json:"error,omitempty"`
	From   string `json:"from,omitempty"`
	Kept   bool   `json:"kept,omitempty"`
}

// report counts before anything is deleted.
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

// shownFailures is how many a person is told of.
const shownFailures = 10

// Write tells a person.
func (r *Report) Write(w io.Writer) {
	var b strings.Builder
	state := "done"
	if !r.Complete {
		state = "not complete; the same command goes on"
	}
	fmt.Fprintf(&b, "%s: %s and %s, %s in %s\n", state, cli.Plural(r.Pages, "page"), cli.Plural(r.Files, "other file"), cli.Size(r.Bytes), r.Dir)
	fmt.Fprintf(&b, "  this round: %s new, %s changed, %s unchanged, %s gone", cli.Count(r.New), cli.Count(r.Changed), cli.Count(r.Unchanged), cli.Count(r.Gone))
	if r.Unlinked > 0 {
		fmt.Fprintf(&b, ", %s that nothing leads to", cli.Count(r.Unlinked))
	}
	switch {
	case r.Gone+r.Unlinked == 0:
	case r.Deleted:
		b.WriteString(" (deleted)")
	default:
		b.WriteString(" (kept; --delete removes them once all is seen)")
	}
	b.WriteByte('\n')
	for i, f := range r.Failures {
		if i == shownFailures {
			fmt.Fprintf(&b, "  and %s more\n", cli.Count(len(r.Failures)-i))
			break
		}
		why := f.Err
		if why == "" {
			why = fmt.Sprint(f.Status)
		}
		fmt.Fprintf(&b, "  not had: %s: %s", f.URL, why)
		if f.From != "" {
			fmt.Fprintf(&b, " (on %s)", f.From)
		}
		if f.Kept {
			b.WriteString("; the copy of before stays")
		}
		b.WriteByte('\n')
	}
	if r.Entry != "" {
		fmt.Fprintf(&b, "  open: %s\n", filepath.Join(r.Dir, "index.html"))
	}
	cli.Say(w, "%s", b.String())
}
