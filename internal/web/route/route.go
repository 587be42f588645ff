// Package route finds the handler of a URL by patterns of the user, of which the most specific one applies.
//
// Unlike the patterns of net/http, these are for other people's URLs: a wildcard may be a part of a segment, a pattern
// may require query parameters, and no URL is rewritten to fit. [Parse] parses a pattern:
//
//	[HOST]/PATH[?QUERY]
//
//	/                          the root, and nothing below it
//	/catalogue/page-{n}        page-1, page-2 …: a wildcard is one or more characters of a segment
//	/docs/{path...}            all below /docs/, and /docs/ itself: only at the end, as a whole segment
//	shop.example/{name}.html   of one host; *.example is any host below it
//	/search?q={words}&lang=de  a parameter that must be there, and one that must have that value
//
// Pattern and URL are compared after both are unescaped, segment by segment, so that %2F is a character and not a slash.
// Parameters that a pattern does not name are ignored, and so is the port.
//
// A pattern is more specific than another if the other one matches all URLs that it matches. A pattern with a host goes
// before one without, and a host before *.host. Two patterns that match some of the same URLs, of which neither is more
// specific, are a conflict, which [Table.Add] reports with examples.
package route

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// separator stands for the slash between segments, because a segment may contain an escaped slash.
const separator = 0

// MaxLength bounds a pattern, in bytes.
const MaxLength = 1000

// Pattern matches URLs. Patterns are immutable.
type Pattern struct {
	text  string
	host  string // in lower case; "*.example" for all hosts below it; empty means any
	path  []token
	begin string      // the beginning of the path without wildcards and escapes
	query []condition // by key
	names []string    // of the wildcards of the path, then of those of the query
}

type condition struct {
	key, value string
	wildcard   string // its name; empty means that value is required
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// Parse parses a pattern. The error says what is wrong and tells the user what to write.
func Parse(text string) (*Pattern, error) {
	p := &Pattern{text: text}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("pattern %q: %w", text, err)
	}
	return p, nil
}

func (p *Pattern) parse() error {
	switch {
	case len(p.text) > MaxLength:
		return fmt.Errorf("longer than %d bytes", MaxLength)
	case strings.Contains(p.text, "://"):
		return errors.New("leave the scheme out: HOST/PATH, or /PATH for any host")
	case strings.Contains(p.text, "#"):
		return errors.New("a fragment is not sent to servers, so that no page has one: leave it out")
	}
	host, rest, found := strings.Cut(p.text, "/")
	if !found {
		return errors.New("it has no path: write / at least, or HOST/")
	}
	if err := p.parseHost(host); err != nil {
		return err
	}
	path, query, asks := cutQuery(rest)
	if err := p.parsePath(path); err != nil {
		return err
	}
	p.begin = path[:strings.IndexAny(path+"/", "/{%\x00")]
	if asks {
		return p.parseQuery(query)
	}
	return nil
}

// cutQuery cuts at the first question mark outside of wildcards.
func cutQuery(s string) (path, query string, found bool) {
	depth := 0
	for i, c := range s {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		case '?':
			if depth == 0 {
				return s[:i], s[i+1:], true
			}
		}
	}
	return s, "", false
}

func (p *Pattern) parseHost(host string) error {
	name, below := strings.CutPrefix(host, "*.")
	switch {
	case strings.ContainsAny(name, "*{}"):
		return errors.New("a host is a whole name, or *.NAME for all hosts below it")
	case strings.Contains(name, ":"):
		return errors.New("leave the port out: a pattern is for all ports of a host")
	case below && name == "":
		return errors.New("*. needs the name of a host behind it")
	}
	p.host = strings.ToLower(host)
	return nil
}

func (p *Pattern) parsePath(path string) error {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if i > 0 {
			p.path = append(p.path, token{kind: literal, char: separator})
		}
		if name, ok := strings.CutSuffix(segment, "...}"); ok && strings.HasPrefix(name, "{") {
			if i < len(segments)-1 {
				return fmt.Errorf("%s must be at the end of the path", segment)
			}
			p.path = append(p.path, token{kind: rest})
			return p.name(name[1:])
		}
		if err := p.parseSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pattern) parseSegment(segment string) error {
	wildcard := false // whether a wildcard comes right before
	for segment != "" {
		text, after, found := strings.Cut(segment, "{")
		if strings.Contains(text, "}") {
			return errors.New("} without {")
		}
		plain, err := unescape(text)
		switch {
		case err != nil:
			return err
		case !utf8.ValidString(plain):
			return fmt.Errorf("%q is not UTF-8", text)
		}
		for i := range len(plain) {
			p.path = append(p.path, token{kind: literal, char: plain[i]})
		}
		if !found {
			return nil
		}
		if wildcard && text == "" {
			return errors.New("there must be text between two wildcards of a segment")
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed {
			return errors.New("{ without }")
		}
		if err := p.name(name); err != nil {
			return err
		}
		p.path = append(p.path, token{kind: one}, token{kind: more})
		wildcard, segment = true, behind
	}
	return nil
}

// unescape returns the form of a segment that is compared.
func unescape(s string) (string, error) {
	plain, err := url.PathUnescape(s)
	return strings.ReplaceAll(plain, "\x00", "\x01"), err
}

func (p *Pattern) parseQuery(query string) error {
	for part := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(part, "=")
		c := condition{}
		var err error
		if c.key, err = url.QueryUnescape(key); err != nil || c.key == "" || strings.ContainsAny(key, "{}") {
			return fmt.Errorf("%q: a query is NAME={wildcard} or NAME=VALUE, with & between several", part)
		}
		if name, ok := strings.CutPrefix(value, "{"); ok && strings.HasSuffix(name, "}") {
			c.wildcard = strings.TrimSuffix(name, "}")
			if err := p.name(c.wildcard); err != nil {
				return err
			}
		} else if c.value, err = url.QueryUnescape(value); err != nil || strings.ContainsAny(value, "{}") {
			return fmt.Errorf("%q: the value of a parameter is a wildcard, or text without one", part)
		}
		if slices.ContainsFunc(p.query, func(o condition) bool { return o.key == c.key }) {
			return fmt.Errorf("parameter %q is there twice", c.key)
		}
		p.query = append(p.query, c)
	}
	return nil
}

func (p *Pattern) name(name string) error {
	switch {
	case name == "" || unicode.IsDigit([]rune(name)[0]) || strings.ContainsFunc(name, outOfName):
		return fmt.Errorf("{%s}: the name of a wildcard is letters, digits and _", name)
	case slices.Contains(p.names, name):
		return fmt.Errorf("{%s} is there twice", name)
	}
	p.names = append(p.names, name)
	return nil
}

func outOfName(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// subject is a URL in the form that is compared with patterns.
type subject struct {
	host, path string     // the path without its first slash, unescaped
	slash      byte       // separates the segments of path
	raw        string     // the query
	query      url.Values // parsed from raw when a pattern needs it; nil before
}

func newSubject(u canonical.URL) subject {
	path, query, _ := strings.Cut(u.Path(), "?")
	s := subject{host: u.Hostname(), path: strings.TrimPrefix(path, "/"), slash: '/', raw: query}
	if strings.Contains(s.path, "%") {
		segments := strings.Split(s.path, "/")
		for i, segment := range segments {
			if plain, err := unescape(segment); err == nil { // otherwise the segment is meant literally
				segments[i] = plain
			}
		}
		s.path, s.slash = strings.Join(segments, string(rune(separator))), separator
	}
	return s
}

func (p *Pattern) match(s *subject) bool {
	return p.hostMatches(s.host) && p.pathMatches(s.path, s.slash, nil) && p.queryMatches(s)
}

// pathMatches makes each wildcard as short as the text after it allows, and stores what it stands for in values unless
// that is nil. If text does not fit, the last wildcard becomes longer. It never helps to make an earlier one longer,
// because the text between them is matched where it occurs first.
func (p *Pattern) pathMatches(path string, slash byte, values []string) bool {
	if !strings.HasPrefix(path, p.begin) {
		return false
	}
	n, behind, begin, end := -1, 0, 0, 0 // the last wildcard: its number, the token after it, and its bounds in path
	for i, at := len(p.begin), len(p.begin); i < len(p.path) || at < len(path); {
		switch fits := i < len(p.path) && p.path[i].fits(path[at:], slash); {
		case fits && p.path[i].kind == literal:
			i, at = i+1, at+1
			continue
		case fits && p.path[i].kind == rest:
			n, begin, end = n+1, at, len(path)
			i, at = i+1, end
		case fits: // one, followed by more
			n, begin, end = n+1, at, at+1
			i, at = i+2, end
			behind = i
		case n < 0 || end == len(path) || path[end] == slash:
			return false
		default:
			end++
			i, at = behind, end
		}
		if values != nil {
			values[n] = path[begin:end]
		}
	}
	return true
}

// fits reports whether the token matches the first character of text.
func (t token) fits(text string, slash byte) bool {
	switch {
	case t.kind == rest:
		return true
	case text == "":
		return false
	case t.kind == literal && t.char != separator:
		return text[0] == t.char && t.char != slash
	default:
		return (text[0] == slash) == (t.kind == literal)
	}
}

func (p *Pattern) queryMatches(s *subject) bool {
	return !slices.ContainsFunc(p.query, func(c condition) bool {
		return !s.values().Has(c.key) || c.wildcard == "" && s.values().Get(c.key) != c.value
	})
}

// values returns the parameters. Malformed ones are left out.
func (s *subject) values() url.Values {
	if s.query == nil {
		s.query, _ = url.ParseQuery(s.raw) // what can be parsed counts
	}
	return s.query
}

// Value returns what a wildcard of the pattern stands for in a URL that the pattern matches, unescaped. It is empty if
// the pattern has no such wildcard.
func (p *Pattern) Value(u canonical.URL, name string) string {
	n := slices.Index(p.names, name)
	if n < 0 {
		return ""
	}
	s := newSubject(u)
	for _, c := range p.query {
		if c.wildcard == name {
			return s.values().Get(c.key)
		}
	}
	values := make([]string, len(p.names))
	p.pathMatches(s.path, s.slash, values)
	return strings.ReplaceAll(values[n], string(rune(separator)), "/")
}

func (p *Pattern) hostMatches(host string) bool {
	name, below := strings.CutPrefix(p.host, "*")
	return p.host == "" || host == p.host || below && strings.HasSuffix(host, name)
}

// Table maps patterns to values. The zero Table is empty. [Table.Find] may be called concurrently, but not while
// [Table.Add] is.
type Table[T any] struct {
	routes []entry[T] // more specific ones come first
}

type entry[T any] struct {
	*Pattern
	to T
}

// Conflict is the error for two patterns of which neither is more specific.
type Conflict struct {
	Old, New *Pattern
	Why      string // with examples
}

func (c *Conflict) Error() string {
	return fmt.Sprintf("pattern %q conflicts with %q: %s", c.New, c.Old, c.Why)
}

// Add adds a route. If the error is a [*Conflict], old is the value of the other route.
func (t *Table[T]) Add(p *Pattern, to T) (old T, err error) {
	at := len(t.routes)
	for i := range t.routes {
		o := t.routes[i].Pattern
		first, why := byHost(p.host, o.host) < 0, ""
		if p.host == o.host {
			first, why = compare(p, o)
		}
		if why != "" {
			return t.routes[i].to, &Conflict{o, p, why}
		}
		if first && at == len(t.routes) {
			at = i
		}
	}
	t.routes = slices.Insert(t.routes, at, entry[T]{p, to})
	return old, nil
}

// byHost orders hosts: first names, then those below a name, longer ones first, and any host last.
func byHost(a, b string) int {
	return cmp.Or(cmp.Compare(hostClass(a), hostClass(b)), cmp.Compare(len(b), len(a)), strings.Compare(a, b))
}

func hostClass(host string) int {
	switch {
	case host == "":
		return 2
	case strings.HasPrefix(host, "*."):
		return 1
	default:
		return 0
	}
}

// Find returns the most specific pattern that matches a URL, and its value. The pattern is nil if none matches.
func (t *Table[T]) Find(u canonical.URL) (by *Pattern, to T) {
	s := newSubject(u)
	for i := range t.routes {
		if r := &t.routes[i]; r.match(&s) {
			return r.Pattern, r.to
		}
	}
	return nil, to
}
