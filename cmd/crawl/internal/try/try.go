// Package try fetches one page and shows what rules for items, fields and links find there. It is a client of the
// package crawl: the page comes by a crawl of one URL, with its robots.txt, its pace, its cookies and its login.
package try

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/items"
)

// Report is what was found.
type Report struct {
	URL         string `json:"url"`
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Bytes       int    `json:"bytes"`
	// Scripts says that the page has little text and several scripts, which may generate what a browser shows.
	Scripts bool `json:"scripts,omitempty"`
	*items.Tried
}

const (
	littleText  = 500 // bytes; pages with lists have more
	someScripts = 2
	longestLine = 200 // bytes of a value that is shown
)

// Run fetches the page, follows its redirects, and tries the rules on it.
func Run(ctx context.Context, o crawl.Options, rules *items.Rules, url string) (*Report, error) {
	o.Depth, o.MaxPages, o.StateDir, o.Fleet = -1, 0, "", crawl.FleetOptions{}
	o.Extract.Fields, o.Traces, o.Output = nil, crawl.TracesOptions{}, crawl.OutputOptions{}
	var mu sync.Mutex
	var report *Report
	var last, tried error
	o.OnPage = func(_ context.Context, p *crawl.Page) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case p.Kind != "page" || p.RedirectTo != "":
		case p.Err != nil:
			last = fmt.Errorf("%s: %w", p.URL, p.Err)
		case len(p.Body) == 0:
			last = fmt.Errorf("%s: status %d, and no body", p.URL, p.Status)
		case report == nil:
			report, tried = look(p, rules)
		}
		return nil
	}
	c, err := crawl.New(o)
	if err != nil {
		return nil, err
	}
	err = job.Advise(c.Run(ctx, url), c)
	mu.Lock()
	defer mu.Unlock()
	switch {
	case report != nil || tried != nil:
		return report, tried
	case last != nil:
		return nil, fmt.Errorf("%w: %w", cli.ErrNothing, last)
	case err != nil:
		return nil, err
	}
	return nil, cli.ErrNothing
}

// look tries the rules on a page.
func look(p *crawl.Page, rules *items.Rules) (*Report, error) {
	r := &Report{URL: p.URL.String(), Status: p.Status, ContentType: p.ContentType, Bytes: len(p.Body)}
	url, err := canonical.Parse(r.URL)
	if err != nil {
		return nil, err
	}
	body := extract.UTF8(bytes.Clone(p.Body), p.Charset)
	budget := effort.New(context.Background(), effort.Steps(len(body), 1<<32), nil, p.FetchedAt)
	page := &items.Page{URL: url, Base: url, Budget: budget}
	if p.ContentType == "application/json" || p.ContentType == "text/json" || strings.HasSuffix(p.ContentType, "+json") {
		page.JSON, _ = fields.ReadJSON(body, budget)
	} else {
		page.Document = dom.ParseWithin(body, dom.MaxElements, budget)
		if u, err := canonical.Parse(p.First("base[href]").URL("href")); err == nil { // an empty text is none
			page.Base = u
		}
		scripts := 0
		for range p.Find("script") {
			scripts++
		}
		r.Scripts = scripts >= someScripts && len(p.Text()) < littleText
	}
	r.Tried, err = rules.Try(page)
	return r, err
}

// Write writes the report for people, wrapped to columns.
func (r *Report) Write(w io.Writer, columns int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: status %d, %s, %s\n", r.URL, r.Status, r.ContentType, cli.Size(int64(r.Bytes)))
	for _, k := range r.Kinds {
		r.kind(&b, k)
	}
	if len(r.Fields) > 0 {
		b.WriteString("\nfields of the page\n")
		tell(&b, r.Fields, true)
	}
	for _, n := range r.Next {
		fmt.Fprintf(&b, "\nnext %s\n", n.Rule)
		switch {
		case n.Skips != "":
			fmt.Fprintf(&b, "  not for this page: %s\n", n.Skips)
		case len(n.Links) == 0:
			fmt.Fprintf(&b, "  no link: %s\n", n.Miss)
		}
		for i, link := range n.Links {
			if i == 5 {
				fmt.Fprintf(&b, "  and %d more\n", len(n.Links)-i)
				break
			}
			fmt.Fprintf(&b, "  %s\n", link)
		}
	}
	r.offers(&b)
	if r.Scripts && (r.Missed() || len(r.Kinds)+len(r.Fields) == 0) {
		b.WriteString("\nThe page has little text and several scripts: what a browser shows may be made by them, and is not in it.\n")
	}
	var out strings.Builder
	for line := range strings.Lines(cli.Clean(b.String())) {
		cli.Indent(&out, line, cli.IndentOf(line)+"    ", columns)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (r *Report) kind(b *strings.Builder, k items.TriedKind) {
	fmt.Fprintf(b, "\nitem %s: ", k.Rule)
	switch {
	case k.Skips != "":
		fmt.Fprintf(b, "not for this page: %s\n", k.Skips)
		return
	case k.Found == 0:
		fmt.Fprintf(b, "none\n  %s\n", k.Miss)
	default:
		fmt.Fprintf(b, "%s\n", cli.Plural(int64(k.Found), "item"))
	}
	for i, item := range k.Shown {
		mark := fmt.Sprintf("  %d ", i+1)
		if item.Whole != nil {
			fmt.Fprintf(b, "%s%s\n", mark, clip(string(item.Whole)))
		}
		for _, f := range item.Fields {
			value := strings.Join(f.Values, " | ")
			fmt.Fprintf(b, "%s%s: %s\n", mark, f.Name, clip(value))
			mark = "    "
		}
	}
	if more := k.Found - len(k.Shown); more > 0 {
		fmt.Fprintf(b, "    and %d more\n", more)
	}
	tell(b, k.Fields, false)
}

// tell writes which fields are missing and where. With values it also writes the values that were found.
func tell(b *strings.Builder, all []items.TriedField, values bool) {
	for _, f := range all {
		switch {
		case f.Found == 0:
			fmt.Fprintf(b, "  ! %s: %s\n", f.Rule, f.Miss)
		case f.Found < f.Of:
			fmt.Fprintf(b, "  %s: in %d of %d\n", f.Name, f.Found, f.Of)
		case values:
			fmt.Fprintf(b, "  %s: %s\n", f.Name, clip(strings.Join(f.Shown, " | ")))
		}
	}
}

func (r *Report) offers(b *strings.Builder) {
	if len(r.Offers) == 0 {
		if len(r.Kinds)+len(r.Fields)+len(r.Next) == 0 {
			b.WriteString("\nno rule to suggest: no list of elements, and no thing of schema.org\n" +
				"  look with --item css:SELECTOR, --field NAME=css:SELECTOR or json:PATH\n")
		}
		return
	}
	b.WriteString("\nthere could be items of\n")
	for _, o := range r.Offers {
		fmt.Fprintf(b, "  --item %s (%d)\n", cli.ShellWord(o.Rule), o.Count)
		for _, f := range o.Fields {
			fmt.Fprintf(b, "    --field %s\n", cli.ShellWord(f))
		}
	}
}

func clip(s string) string {
	if s = strings.Join(strings.Fields(s), " "); len(s) > longestLine {
		return dom.Clip(s, longestLine) + "..."
	}
	return s
}
