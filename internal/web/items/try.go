package items

import (
	"fmt"
	"slices"

	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/record"
)

// maxShown is how many items of each kind, and values of each field, are shown.
const maxShown = 3

// Tried is what the rules find on one page.
type Tried struct {
	Kinds  []TriedKind  `json:"items,omitempty"`
	Fields []TriedField `json:"fields,omitempty"` // of the page, if there are no rules for items
	Next   []TriedNext  `json:"next,omitempty"`
	Offers []Offer      `json:"offers,omitempty"` // suggested rules, if nothing was found or no rule was given
}

// TriedKind is the result of a rule for items.
type TriedKind struct {
	Rule   string              `json:"rule"`
	Name   string              `json:"name"`
	Skips  string              `json:"skips,omitempty"` // why the rule does not apply to the page
	Found  int                 `json:"found"`
	Miss   string              `json:"miss,omitempty"` // why nothing was found
	Shown  []*record.Extracted `json:"shown,omitempty"`
	Fields []TriedField        `json:"fields,omitempty"`
}

// TriedField is the result of a rule for a field, in all items of a kind.
type TriedField struct {
	Rule  string   `json:"rule"`
	Name  string   `json:"name"`
	Found int      `json:"found"`
	Of    int      `json:"of"`
	Miss  string   `json:"miss,omitempty"` // why nothing was found
	Shown []string `json:"shown,omitempty"`
}

// TriedNext is the result of a rule for links.
type TriedNext struct {
	Rule  string   `json:"rule"`
	Skips string   `json:"skips,omitempty"`
	Links []string `json:"links,omitempty"`
	Miss  string   `json:"miss,omitempty"`
}

// Missed reports whether a rule that applies found nothing.
func (t *Tried) Missed() bool {
	return slices.ContainsFunc(t.Fields, TriedField.missed) || slices.ContainsFunc(t.Kinds, func(k TriedKind) bool {
		return k.Skips == "" && (k.Found == 0 || slices.ContainsFunc(k.Fields, TriedField.missed))
	})
}

func (t TriedField) missed() bool { return t.Found == 0 }

// Try evaluates the rules on one page and reports what each finds, and why those fail that find nothing.
func (r *Rules) Try(p *Page) (*Tried, error) {
	t := &Tried{}
	left := MaxBytes
	w := p.within(&left)
	total, matched := 0, false
	e, err := r.Extractor()
	if err != nil {
		return nil, err
	}
	for i := range r.Kinds {
		k, err := e.try(i, p, w)
		if err != nil {
			return nil, err
		}
		total += k.Found
		matched = matched || len(k.Fields) > 0
		t.Kinds = append(t.Kinds, k)
	}
	if t.Fields, err = tryFields(r.Page, []fields.Within{w}); err != nil {
		return nil, err
	}
	for i := range r.Nexts {
		t.Next = append(t.Next, e.tryNext(i, p, w, total))
	}
	if total == 0 && !matched && len(r.Page) == 0 {
		t.Offers = Offers(p)
	}
	return t, nil
}

// try evaluates one rule for items.
func (e *Extractor) try(i int, p *Page, w fields.Within) (TriedKind, error) {
	k := &e.kinds[i]
	t := TriedKind{Rule: k.source, Name: k.Name}
	if k.Match != nil && !k.Match.MatchString(p.URL.String()) {
		t.Skips = fmt.Sprintf("the URL does not match %s", k.Match)
		return t, nil
	}
	var parts []fields.Within
	k.each(p, w, func(part fields.Within) bool {
		parts = append(parts, part)
		return len(parts) < MaxItems
	})
	for _, part := range parts {
		if item, _ := k.item(part); item != nil { // the crawl reports what was cut
			if t.Found++; len(t.Shown) < maxShown {
				item.Page = p.URL.String()
				t.Shown = append(t.Shown, item)
			}
		}
	}
	switch {
	case len(parts) == 0 && k.Schema != "":
		t.Miss = missSchema(k.Schema, p)
	case len(parts) == 0:
		t.Miss = miss(&k.Select, w)
	case t.Found == 0:
		t.Miss = fmt.Sprintf("%d match, and none of them has a field", len(parts))
	}
	if len(parts) == 0 {
		return t, nil
	}
	var err error
	t.Fields, err = tryFields(k.Fields, parts)
	return t, err
}

func tryFields(rules []fields.Rule, parts []fields.Within) (all []TriedField, err error) {
	for _, f := range rules {
		tried, err := tryField(f, parts)
		if err != nil {
			return nil, err
		}
		all = append(all, tried)
	}
	return all, nil
}

// tryField evaluates a rule for a field in parts of a page.
func tryField(f fields.Rule, parts []fields.Within) (TriedField, error) {
	t := TriedField{Rule: f.String(), Name: f.Name, Of: len(parts)}
	e, err := compile(f)
	if err != nil {
		return t, err
	}
	values := func(e *fields.Extractor, w fields.Within) []string {
		left := fields.MaxPage
		w.Left = &left
		found, _ := e.In(w) // a value that was cut is shown as it is
		if len(found) == 0 {
			return nil
		}
		return found[0].Values
	}
	for _, w := range parts {
		if v := values(e, w); len(v) > 0 {
			if t.Found++; len(t.Shown) < maxShown {
				t.Shown = append(t.Shown, v[0])
			}
		}
	}
	if t.Found > 0 || len(parts) == 0 {
		return t, nil
	}
	if f.Type == fields.Number || f.Type == fields.URL || f.Type == fields.Date {
		as := f
		as.Type = fields.Text
		if e, err = compile(as); err == nil {
			if v := values(e, parts[0]); len(v) > 0 {
				t.Miss = fmt.Sprintf("it finds %.60q, which is no %s", v[0], f.Type)
				return t, nil
			}
		}
	}
	t.Miss = miss(&f, parts[0])
	return t, nil
}

// tryNext evaluates one rule for links.
func (e *Extractor) tryNext(i int, p *Page, w fields.Within, items int) TriedNext {
	n := &e.rules.Nexts[i]
	t := TriedNext{Rule: n.source}
	if n.Match != nil && !n.Match.MatchString(p.URL.String()) {
		t.Skips = fmt.Sprintf("the URL does not match %s", n.Match)
		return t
	}
	one := &Extractor{rules: &Rules{Nexts: []Next{*n}}, nexts: e.nexts[i : i+1]}
	if t.Links = one.Next(p, items); len(t.Links) > 0 {
		return t
	}
	if t.Miss = "the page has no items"; n.Step == 0 {
		t.Miss = miss(&n.Rule, w)
	}
	return t
}
