// Package try fetches one page and shows what rules for items, fields and links find there. It is a client of the
// package crawl: the page comes by a crawl of one URL, with its robots.txt, its pace, its cookies and its login.
package try

import (
	"bytes"
	"context"
	_ "embed" // try.txt
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
	at := &items.Page{URL: url, Base: url, Budget: budget}
	if p.ContentType == "application/json" || p.ContentType == "text/json" || strings.HasSuffix(p.ContentType, "+json") {
		at.JSON, _ = fields.ReadJSON(body, budget)
	} else {
		at.Document = dom.ParseWithin(body, dom.MaxElements, budget)
		if u, err := canonical.Parse(p.First("base[href]").URL("href")); err == nil { // an empty text is none
			at.Base = u
		}
		scripts := 0
		for range p.Find("script") {
			scripts++
		}
		r.Scripts = scripts >= someScripts && len(p.Text()) < littleText
	}
	r.Tried, err = rules.Try(at)
	return r, err
}

//go:embed try.txt
var template string

var page = cli.NewPage(template, 0, "    ", map[string]any{"clip": clip})

// Write writes the report for people, wrapped to columns.
func (r *Report) Write(w io.Writer, columns int) error {
	_, err := io.WriteString(w, page.Text(r, columns))
	return err
}

func clip(s string) string {
	if s = strings.Join(strings.Fields(cli.Clean(s)), " "); len(s) > longestLine {
		return dom.Clip(s, longestLine) + "..."
	}
	return s
}
