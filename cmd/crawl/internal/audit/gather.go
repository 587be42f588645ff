package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
	"github.com/treadlight/crawl/record"
)

// Labels of requests besides those of the site, and the metadata that counts redirects.
const (
	labelOutside = "audit-outside"
	labelRobots  = "audit-robots"
	metaHops     = "audit-hops"
	maxHops      = 10
)

// gatherer makes facts of the pages of the crawl, and requests the targets of links out of scope.
type gatherer struct {
	external bool
	prefix   bool // the scope is a prefix, so links to the same host may be out of scope
	known    map[string]*facts.Page
	origins  sync.Map // those whose robots.txt was requested
	reused   sync.Map // URLs of known whose facts were written again
}

// handle is the handler of the crawl.
func (g *gatherer) handle(_ context.Context, p *crawl.Page) error {
	switch {
	case p.Label() == labelRobots:
		return p.Emit(facts.ReadRobots(p))
	case p.Label() == labelOutside:
		return g.outside(p)
	case p.Kind == "sitemap":
		return p.Emit(facts.ReadMap(p))
	}
	f := facts.Read(p, func(url string, kind facts.Kind) facts.Kind { return g.judge(p, url, kind) })
	g.askRobots(p)
	if f.To != "" {
		f.Links = append(f.Links, facts.Link(g.judge(p, f.To, facts.Anchor), "", f.To, ""))
	}
	return p.Emit(f)
}

// judge returns the kind of a link: kind, or one that says that the link leads out of scope. In that case it requests
// the target if external is set.
func (g *gatherer) judge(p *crawl.Page, url string, kind facts.Kind) facts.Kind {
	if !g.prefix && strings.HasPrefix(url, facts.Origin(p.URL.String())+"/") {
		return kind
	}
	switch p.Follow(url).Reason {
	case "other_host", "other_domain", "other_prefix":
	case "":
		return kind
	default:
		return facts.Unchecked
	}
	if g.external && !g.reuse(p, url) {
		p.Follow(url, crawl.WithLabel(labelOutside), crawl.WithMethod(http.MethodHead), crawl.WithoutScope())
	}
	if kind == facts.Resource {
		return facts.OutsideResource
	}
	return facts.OutsideAnchor
}

// reuse writes what an older audit knows of a URL, once, and reports whether it knows something.
func (g *gatherer) reuse(p *crawl.Page, url string) bool {
	f := g.known[url]
	if f == nil {
		return false
	}
	if _, again := g.reused.LoadOrStore(url, true); !again {
		_ = p.Emit(f) // an error means a full page: the next audit checks the link
	}
	return true
}

// outside handles the response of a link's target out of scope. It repeats a HEAD request as GET if the response may
// differ.
func (g *gatherer) outside(p *crawl.Page) error {
	f := facts.New(p)
	f.Kind, f.Referrer, f.At = facts.Outside, "", p.FetchedAt.Unix()
	hops, _ := strconv.Atoi(p.Meta(metaHops)) // zero without metadata
	again := []crawl.FollowOption{crawl.WithLabel(labelOutside), crawl.WithoutScope(), crawl.WithMeta(metaHops, strconv.Itoa(hops+1))}
	switch {
	case f.To != "" && hops < maxHops:
		p.Follow(f.To, append(again, crawl.WithMethod(http.MethodHead))...)
	case p.Method == http.MethodHead && refusesHead(f):
		p.Follow(f.URL, again...)
	}
	return p.Emit(f)
}

// refusesHead reports whether GET may get another response than HEAD did. Many servers do not support HEAD.
func refusesHead(f *facts.Page) bool {
	switch f.Class {
	case "protocol", "decode", "truncated", "timeout":
		return true
	}
	return f.Status >= 400 && f.Status != http.StatusTooManyRequests
}

// askRobots requests the robots.txt of a host as a page, once.
func (g *gatherer) askRobots(p *crawl.Page) {
	origin := facts.Origin(p.URL.String())
	if _, asked := g.origins.LoadOrStore(origin, true); !asked {
		p.Follow(origin+"/robots.txt", crawl.WithLabel(labelRobots), crawl.WithoutScope(), crawl.WithAgain("audit"))
	}
}

// factsFile is the sink of facts. For a record that no handler saw, such as that of a URL disallowed by robots.txt, it
// writes facts made from the record.
type factsFile struct {
	record.Durable
	name string
}

// Mark returns how far the file is committed, under a name that does not change when the directory moves.
func (w factsFile) Mark() record.Position {
	p := w.Durable.Mark()
	p.Path = w.name
	return p
}

// Takes implements [record.ItemSink].
func (w factsFile) Takes(value any) bool { _, ok := value.(*facts.Page); return ok }

// WriteItem implements [record.ItemSink].
func (w factsFile) WriteItem(r *record.Record, item record.Item) error {
	return w.Durable.(record.ItemSink).WriteItem(r, item) //nolint:forcetypeassert // it is made by crawl.Items
}

// Write writes facts for a record that has an error and no items.
func (w factsFile) Write(r *record.Record) error {
	if len(r.Items) > 0 || r.Error == nil {
		return nil
	}
	f := &facts.Page{URL: r.URL, Status: r.Status, Class: r.Error.Class, Message: r.Error.Message, Referrer: r.Referrer}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return w.WriteItem(r, record.Item{Value: f, JSON: text})
}

// factsName is the name of the file of facts, in the directory of the state.
const factsName = "facts.jsonl"

// openFacts opens the file of facts: a new one, or, with a state, the existing one at the position in the state.
func openFacts(dir string, state *crawl.State) (factsFile, error) {
	var resume *record.Position
	if state != nil {
		at := state.Position(factsName)
		resume = &at
	}
	file, err := crawl.Items[facts.Page](filepath.Join(dir, factsName), resume)
	return factsFile{file, factsName}, err
}

// maxAge is how long the response of another site may be reused.
const maxAge = 24 * time.Hour

// readKnown returns the successful responses of other sites in the facts of an older audit, or nil if these cannot be
// read.
func readKnown(path string, now time.Time) map[string]*facts.Page {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // it was only read
	known := make(map[string]*facts.Page)
	for r := bufio.NewReader(file); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return known
		}
		var f facts.Page
		if bytes.Contains(line, []byte(`"kind":"outside"`)) && json.Unmarshal(line, &f) == nil &&
			f.Status/100 == 2 && now.Sub(time.Unix(f.At, 0)) < maxAge {
			known[f.URL] = &f
		}
	}
}
