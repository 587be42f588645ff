package items

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/document/spelling"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/schema"
)

const (
	maxNear   = 3  // names suggested for a miss
	maxNames  = 20 // names of things of a page that are listed
	leastOf   = 3  // elements that make a list
	maxListed = 8  // kinds of repeated elements that are offered
)

// miss says why a rule finds nothing in a part of a page: which part of the rule still finds something, and which names
// of the page it may have meant.
func miss(r *fields.Rule, w fields.Within) string {
	switch {
	case r.JSON != "":
		return missJSON(r, w)
	case w.Node == nil:
		return "the page is JSON, which json:PATH is for"
	case r.RE != "":
		return "the text has no match"
	case r.XPath != "":
		return missSteps("xpath", steps(r.XPath, "/"), w)
	}
	var all []string
	for _, one := range split(r.CSS, ",") {
		all = append(all, missSteps("css", compounds(one), w))
	}
	text := strings.Join(all, "; ")
	if r.Attr != "" && count(fields.Rule{Name: r.Name, CSS: r.CSS}, w) > 0 {
		text = fmt.Sprintf("%s matches %d, without an attribute %s", r.CSS, count(fields.Rule{Name: r.Name, CSS: r.CSS}, w), r.Attr)
	}
	return text
}

// count returns how many elements or values a selector finds. It is -1 for an invalid selector.
func count(r fields.Rule, w fields.Within) (n int) {
	set, err := fields.New([]fields.Rule{r})
	if err != nil {
		return -1
	}
	set.Extractor().Parts(w, func(fields.Within) bool { n++; return n < MaxItems })
	return n
}

// missSteps names the longest beginning of a selector that finds something, and what the next step may have meant.
func missSteps(how string, parts []string, w fields.Within) string {
	rule := func(text string) fields.Rule {
		if how == "xpath" {
			return fields.Rule{Name: "x", XPath: text}
		}
		return fields.Rule{Name: "x", CSS: text}
	}
	good, n, at := "", 0, 0
	for i := range parts {
		text := strings.TrimRight(strings.Join(parts[:i+1], ""), " >+~")
		switch found := count(rule(text), w); {
		case found > 0:
			good, n, at = strings.TrimSpace(text), found, i+1
		case found == 0:
			return told(good, n, strings.Trim(parts[i], " >+~/"), near(parts[i], w))
		}
	}
	if at == len(parts) {
		return fmt.Sprintf("%s matches %d, which have nothing that can be taken", good, n)
	}
	return "nothing matches"
}

func told(good string, n int, part, hint string) string {
	text := fmt.Sprintf("nothing matches %s", part)
	if good != "" {
		text = fmt.Sprintf("%s matches %d, and %s nothing in them", good, n, part)
	}
	if hint != "" {
		text += "; there is " + hint
	}
	return text
}

// word matches a name in a selector: a class, an id, an element, or a word of a quoted text in XPath.
var word = lazy.Regexp(`[.#]?[\pL_][\pL\pN_-]*`)

// near lists names of the page that are spelled like those in a part of a selector, with their numbers.
func near(part string, w fields.Within) string {
	have := names(w)
	var hints []string
	for _, want := range word().FindAllString(part, -1) {
		if have[want] > 0 && !strings.ContainsAny(part, "[:'\"") {
			continue
		}
		hints = append(hints, like(want, have)...)
	}
	slices.Sort(hints)
	hints = slices.Compact(hints)
	return strings.Join(hints[:min(len(hints), maxNear)], ", ")
}

// like returns the names nearest to one: those that contain it or are contained in it, that have the same beginning, or
// that differ by a typing error. Classes, ids and elements are compared with each other, because people confuse them.
func like(want string, have map[string]int) (all []string) {
	bare := strings.ToLower(strings.TrimLeft(want, ".#"))
	type candidate struct {
		name string
		far  int
	}
	var list []candidate
	for name := range have {
		other := strings.ToLower(strings.TrimLeft(name, ".#"))
		far := spelling.Distance(bare, other)
		switch {
		case name == want:
			continue
		case bare == other:
			far = 0
		case len(bare) > 2 && len(other) > 2 && (strings.Contains(other, bare) || strings.Contains(bare, other)):
			far = 1
		case common(bare, other) >= max(4, 2*min(len(bare), len(other))/3):
			far = 2
		case far > max(1, len(bare)/3) || len(bare) < 3:
			continue
		}
		list = append(list, candidate{name, far})
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), -cmp.Compare(have[a.name], have[b.name]), cmp.Compare(a.name, b.name))
	})
	for _, c := range list[:min(len(list), maxNear)] {
		all = append(all, fmt.Sprintf("%s (%d)", c.name, have[c.name]))
	}
	return all
}

// common returns the length of the common prefix of two names.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// names counts the elements, classes and ids in a part of a page.
func names(w fields.Within) map[string]int {
	have := map[string]int{}
	if w.Node == nil {
		return have
	}
	for n := range w.Node.Descendants() {
		if n.Type != html.ElementNode || !w.Budget.Spend(1) {
			continue
		}
		have[n.Data]++
		if id, ok := dom.Attr(n, "id"); ok && id != "" {
			have["#"+id]++
		}
		classes, _ := dom.Attr(n, "class")
		for c := range strings.FieldsSeq(classes) {
			have["."+c]++
		}
	}
	return have
}

// split splits a selector at a mark that is neither in brackets nor in quotes.
func split(s, mark string) (parts []string) {
	depth, quote, from := 0, byte(0), 0
	for i := range len(s) {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case depth == 0 && c == mark[0]:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

// compounds returns the parts of a selector, each with the combinator before it.
func compounds(s string) (parts []string) {
	s = strings.TrimSpace(s)
	from := ""
	for _, part := range split(s, " ") {
		switch {
		case part == "":
			from += " "
		case strings.Trim(part, ">+~") == "":
			from += part + " "
		default:
			parts = append(parts, from+part)
			from = " "
		}
	}
	return parts
}

// steps returns the steps of a path, each with the slashes before it.
func steps(s, mark string) (parts []string) {
	slashes := ""
	for i, part := range split(s, mark) {
		if i > 0 {
			slashes += mark
		}
		if part != "" {
			parts = append(parts, slashes+part)
			slashes = ""
		}
	}
	return parts
}

// missJSON says how far a path leads, and which names there are.
func missJSON(r *fields.Rule, w fields.Within) string {
	if w.JSON == nil {
		return "the page is no JSON"
	}
	path := strings.TrimPrefix(strings.TrimPrefix(r.JSON, "$"), ".")
	parts := strings.FieldsFunc(strings.ReplaceAll(path, "[", ".["), func(c rune) bool { return c == '.' })
	here, good := []any{w.JSON}, "$"
	for _, part := range parts {
		p, err := fields.CompileJSON(part)
		if err != nil {
			return "nothing matches"
		}
		var next []any
		for _, v := range here {
			next = append(next, fields.SelectJSON(p, v, w.Budget)...)
		}
		if len(next) == 0 {
			return fmt.Sprintf("%s has no %s; it has %s", good, part, keys(here[0]))
		}
		here, good = next, strings.ReplaceAll(good+"."+part, ".[", "[")
	}
	return good + " is empty"
}

func keys(v any) string {
	switch v := v.(type) {
	case map[string]any:
		all := slices.Sorted(maps.Keys(v))
		return strings.Join(all[:min(len(all), maxNames)], ", ")
	case []any:
		return fmt.Sprintf("%d values: [*] is all of them", len(v))
	case nil:
		return "nothing"
	}
	return fmt.Sprintf("a value, %.40v", v)
}

// missSchema says which types of things the page has.
func missSchema(kind string, p *Page) string {
	if p.Document == nil {
		return "the page is no HTML"
	}
	types := schema.Types(p.Document, p.Base)
	if len(types) == 0 {
		return "the page has neither JSON-LD nor microdata with a type"
	}
	return fmt.Sprintf("there is no %s; there is %s", kind, strings.Join(types[:min(len(types), maxNames)], ", "))
}

// Offer is a suggested rule.
type Offer struct {
	Rule  string `json:"rule"` // value for --item
	Count int    `json:"count"`
	// Fields are values for --field, for things of schema.org.
	Fields []string `json:"fields,omitempty"`
}

// Offers suggests rules for items: for the things of schema.org on a page, and for elements that occur several times.
func Offers(p *Page) (all []Offer) {
	if p.Document == nil {
		return nil
	}
	for _, kind := range schema.Types(p.Document, p.Base) {
		things := schema.Read(p.Document, p.Base, kind)
		o := Offer{Rule: schemaPrefix + kind, Count: len(things)}
		if len(things) > 0 {
			o.Fields = offered("", things[0], 0)
		}
		all = append(all, o)
	}
	left := MaxBytes
	type listed struct {
		name string
		n    int
	}
	var lists []listed
	for name, n := range names(p.within(&left)) {
		if n >= leastOf && strings.HasPrefix(name, ".") && Check(ItemWord+"css:"+name) == nil {
			lists = append(lists, listed{name, n})
		}
	}
	slices.SortFunc(lists, func(a, b listed) int { return cmp.Or(-cmp.Compare(a.n, b.n), cmp.Compare(a.name, b.name)) })
	for _, l := range lists[:min(len(lists), maxListed)] {
		all = append(all, Offer{Rule: "css:" + l.name, Count: l.n})
	}
	return all
}

// plainName matches a name that needs no quotes in a JSONPath.
var plainName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// offered returns rules for the values of a thing, and of the things in it.
func offered(path string, v map[string]any, depth int) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if !plainName().MatchString(key) || len(all) == maxNames {
			continue
		}
		at, value := path+key, v[key]
		if list, ok := value.([]any); ok && len(list) > 0 {
			at, value = at+"[0]", list[0]
		}
		switch value := value.(type) {
		case map[string]any:
			if depth == 0 {
				all = append(all, offered(at+".", value, depth+1)...)
			}
		case nil:
		default:
			name := key
			if path != "" && key == "name" {
				name = strings.Trim(strings.NewReplacer("[0]", "", ".", "_").Replace(path), "_") + "_name"
			}
			if strings.Contains(strings.ToLower(key), "price") && key != "priceCurrency" || strings.HasSuffix(key, "Count") || key == "ratingValue" {
				name += ":number"
			}
			all = append(all, name+"=json:"+at)
		}
	}
	return all
}
