package items

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/schema"
	"github.com/treadlight/crawl/record"
)

const (
	// MaxItems bounds the items of a page.
	MaxItems = 10_000
	// MaxBytes bounds the values of all items of a page, in bytes.
	MaxBytes = 8 << 20

	maxProblems = 5 // reported for a page
)

// Extractor extracts items by rules. It must not be used concurrently.
type Extractor struct {
	rules  *Rules
	kinds  []kind
	nexts  []*fields.Extractor // nil for a rule that counts a parameter
	tagged bool
}

type kind struct {
	*Kind

	parts  *fields.Extractor // nil for things of schema.org and for whole pages
	fields *fields.Extractor // nil means the whole value
}

// Extractor returns an Extractor for one worker. For nil or empty Rules it returns nil, which wants no page.
func (r *Rules) Extractor() (*Extractor, error) {
	if r == nil || len(r.Kinds)+len(r.Nexts) == 0 {
		return nil, nil //nolint:nilnil // a nil Extractor is valid
	}
	e := &Extractor{rules: r, tagged: len(r.Names()) > 1}
	for i := range r.Kinds {
		k := kind{Kind: &r.Kinds[i]}
		var err error
		if k.Schema == "" && !k.Whole {
			if k.parts, err = compile(k.Select); err != nil {
				return nil, err
			}
		}
		if k.fields, err = compile(k.Fields...); err != nil {
			return nil, fmt.Errorf("fields of %s: %w", k.Name, err)
		}
		e.kinds = append(e.kinds, k)
	}
	e.nexts = make([]*fields.Extractor, len(r.Nexts))
	for i, n := range r.Nexts {
		if n.Rule.Name != "" {
			var err error
			if e.nexts[i], err = compile(n.Rule); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

// compile makes an extractor for one worker. It is nil if there are no rules.
func compile(rules ...fields.Rule) (*fields.Extractor, error) {
	set, err := fields.New(rules)
	return set.Extractor(), err
}

// Wants reports whether any rule is for the page.
func (e *Extractor) Wants(url string) bool {
	return e != nil && (slices.ContainsFunc(e.kinds, func(k kind) bool { return k.Match == nil || k.Match.MatchString(url) }) ||
		slices.ContainsFunc(e.rules.Nexts, func(n Next) bool { return n.Match == nil || n.Match.MatchString(url) }))
}

// Follows reports whether rules say which links are followed, instead of all.
func (e *Extractor) Follows() bool { return e != nil && len(e.rules.Nexts) > 0 }

// Page is one page, as HTML or as JSON.
type Page struct {
	URL, Base canonical.URL
	Document  *dom.Document // nil means that it is not HTML
	JSON      any           // nil means that it is not JSON
	Budget    *effort.Budget
}

// Result is what was found on a page.
type Result struct {
	Items []*record.Extracted
	Err   error // what was cut or failed; the items are valid all the same
}

// Page extracts the items of a page.
func (e *Extractor) Page(p *Page) (r Result) {
	left := MaxBytes
	w := p.within(&left)
	var problems []error
	for i := range e.kinds {
		k := &e.kinds[i]
		if k.Match != nil && !k.Match.MatchString(p.URL.String()) {
			continue
		}
		k.each(p, w, func(part fields.Within) bool {
			if len(r.Items) == MaxItems || left <= 0 || w.Budget.Spent() {
				problems = append(problems, fmt.Errorf("%s: only the first %d items were taken: the page has more than %d items or %d bytes of them, or takes longer than extract.max_time", k.Name, len(r.Items), MaxItems, MaxBytes))
				return false
			}
			item, err := k.item(part)
			if err != nil && len(problems) < maxProblems {
				problems = append(problems, err)
			}
			if item != nil {
				item.Page, item.Tagged = p.URL.String(), e.tagged
				r.Items = append(r.Items, item)
			}
			return true
		})
	}
	r.Err = errors.Join(problems...)
	return r
}

func (p *Page) within(left *int) fields.Within {
	w := fields.Within{URL: p.URL, Base: p.Base, JSON: p.JSON, Budget: p.Budget, Left: left}
	if p.Document != nil {
		w.Node = p.Document.Root
	}
	return w
}

// Digest returns a hash that is equal for pages with the same items, whatever the URLs of the pages. It is empty if
// there are no items.
func (e *Extractor) Digest(all []*record.Extracted) string {
	if len(all) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, item := range all {
		bare := *item
		bare.Page, bare.Fields = "", slices.DeleteFunc(slices.Clone(item.Fields), func(v record.Values) bool {
			return slices.ContainsFunc(e.kinds, func(k kind) bool { return k.Name == item.Kind && k.isPage(v.Name, v.Values[0], item.Page) })
		})
		text, _ := bare.MarshalJSON() // cannot fail: the item was encoded before
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// each yields the parts of a page that are items.
func (k *kind) each(p *Page, w fields.Within, yield func(fields.Within) bool) {
	switch {
	case k.Whole:
		yield(w)
	case k.Schema != "":
		if p.Document == nil {
			return
		}
		for _, thing := range schema.Read(p.Document, p.Base, k.Schema) {
			part := w
			if part.Node, part.JSON = nil, thing; !yield(part) {
				return
			}
		}
	default:
		k.parts.Parts(w, yield)
	}
}

// item returns the item of a part. It returns nil if the part has none of the fields but the URL of the page, like the
// head of a table among its rows.
func (k *kind) item(part fields.Within) (*record.Extracted, error) {
	item := &record.Extracted{Kind: k.Name}
	if k.fields == nil {
		if size := fields.SizeJSON(part.JSON, *part.Left); size > *part.Left {
			*part.Left = -1
			return nil, fmt.Errorf("%s: an item is more than the %d bytes there is room for", k.Name, MaxBytes)
		}
		text, err := json.Marshal(part.JSON)
		if err != nil {
			return nil, err
		}
		if *part.Left -= len(text); *part.Left < 0 {
			return nil, fmt.Errorf("%s: an item of %d bytes is more than there is room for", k.Name, len(text))
		}
		item.Whole = text
		return item, nil
	}
	found, err := k.fields.In(part)
	if !slices.ContainsFunc(found, func(f record.Values) bool { return !k.isPage(f.Name, f.Values[0], part.URL.String()) }) {
		return nil, err
	}
	item.Fields = append(item.Fields, found...)
	return item, err
}

// Next returns the URLs of the next pages of lists, without duplicates. A parameter is counted up only if the page has
// items.
func (e *Extractor) Next(p *Page, items int) (all []string) {
	left := MaxBytes
	w := p.within(&left)
	add := func(u string) {
		if u != "" && !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	for i := range e.rules.Nexts {
		n := &e.rules.Nexts[i]
		if n.Match != nil && !n.Match.MatchString(p.URL.String()) {
			continue
		}
		switch {
		case n.Step > 0:
			if items > 0 {
				add(stepped(p.URL.String(), n))
			}
			continue
		case w.Budget.Spent():
			return all
		}
		found, _ := e.nexts[i].In(w) // a link that was cut is left out
		for _, f := range found {
			for _, v := range f.Values {
				if n.Param != "" {
					v = withParam(p.URL.String(), n.Param, v)
				}
				add(v)
			}
		}
	}
	return all
}

// stepped returns the URL with the next number in a parameter. It is empty if the value there is not a number.
func stepped(from string, n *Next) string {
	u, err := url.Parse(from)
	if err != nil {
		return ""
	}
	now := n.Start
	if text, ok := param(u.RawQuery, n.Param); ok {
		if now, err = strconv.Atoi(text); err != nil || now < 0 || now > 1<<40 {
			return ""
		}
	}
	return withParam(from, n.Param, strconv.Itoa(now+n.Step))
}

func param(query, name string) (value string, ok bool) {
	for pair := range strings.SplitSeq(query, "&") {
		key, v, _ := strings.Cut(pair, "=")
		if k, err := url.QueryUnescape(key); err == nil && k == name {
			v, err = url.QueryUnescape(v)
			return v, err == nil
		}
	}
	return "", false
}

// withParam sets a parameter of a URL, replacing its value if it is there.
func withParam(from, name, value string) string {
	u, err := url.Parse(from)
	if err != nil || value == "" {
		return ""
	}
	pair, set := url.QueryEscape(name)+"="+url.QueryEscape(value), false
	var pairs []string
	for old := range strings.SplitSeq(u.RawQuery, "&") {
		key, _, _ := strings.Cut(old, "=")
		if k, err := url.QueryUnescape(key); err == nil && k == name {
			if !set {
				pairs = append(pairs, pair)
			}
			set = true
		} else if old != "" {
			pairs = append(pairs, old)
		}
	}
	if !set {
		pairs = append(pairs, pair)
	}
	u.RawQuery = strings.Join(pairs, "&")
	return u.String()
}
