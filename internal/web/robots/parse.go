package robots

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/encoding/unicode"
)

// MaxBytes is how much of a file is read, the least that RFC 9309 section 2.5 allows a
// crawler to stop at: 500 kibibytes. A fetch need not ask for more.
const MaxBytes = 500 << 10

// File is a robots.txt, read. The zero File allows everything. Its memory is bounded by
// a small multiple of MaxBytes.
type File struct {
	groups   []group
	sitemaps []string
}

// group is what follows one list of User-agent lines.
type group struct {
	agents []string // product tokens in lower case, or "*"
	rules  []rule
	delay  time.Duration // of Crawl-delay
	pace   time.Duration // of Request-rate
}

// Parse reads the first MaxBytes of a file and skips whatever makes no sense.
func Parse(body []byte) *File {
	p := parser{f: new(File)}
	body = textOf(body)
	for n := 1; len(body) > 0; n++ {
		var line []byte
		line, body = nextLine(body)
		p.line(n, string(line))
	}
	return p.f
}

// textOf is the first MaxBytes of a file as UTF-8, without the line that the limit may have
// cut in two. A file is to be UTF-8, but editors save some in UTF-16, with a byte order mark.
func textOf(body []byte) []byte {
	limited := len(body) >= MaxBytes
	body = body[:min(len(body), MaxBytes)]
	if bytes.HasPrefix(body, []byte("\xff\xfe")) || bytes.HasPrefix(body, []byte("\xfe\xff")) {
		body, _ = unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM).NewDecoder().Bytes(body) // cannot fail: the mark is there
	} else {
		body = withoutBOM(body)
	}
	if limited {
		body = body[:bytes.LastIndexAny(body, "\r\n")+1]
	}
	return body
}

// withoutBOM drops a byte order mark, also one that has lost its end.
func withoutBOM(body []byte) []byte {
	const bom = "\xef\xbb\xbf"
	for n := len(bom); n > 0; n-- {
		if rest, ok := bytes.CutPrefix(body, []byte(bom[:n])); ok {
			return rest
		}
	}
	return body
}

// nextLine splits at CR LF, LF or CR.
func nextLine(body []byte) (line, rest []byte) {
	i := bytes.IndexAny(body, "\r\n")
	if i < 0 {
		return body, nil
	}
	rest = body[i+1:]
	if body[i] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return body[:i], rest
}

// parser is where a reading stands. A rule ends a list of agents: the next User-agent
// line begins a new group. Crawl-delay, Request-rate, Sitemap and unknown lines do not
// (RFC 9309 section 2.2.4 forbids that other records interfere).
type parser struct {
	f      *File
	inList bool // the last line that counts was a User-agent line
}

func (p *parser) line(n int, text string) {
	text, _, _ = strings.Cut(text, "#")
	key, value := split(text)
	switch key {
	case keyAgent:
		p.agent(value)
	case keyAllow, keyDisallow:
		p.rule(n, key == keyAllow, value)
	case keyDelay:
		if d, ok := parseDelay(value); ok && len(p.f.groups) > 0 {
			g := &p.f.groups[len(p.f.groups)-1]
			g.delay = max(g.delay, d)
		}
	case keyRate:
		if d, ok := parseRate(value); ok && len(p.f.groups) > 0 {
			g := &p.f.groups[len(p.f.groups)-1]
			g.pace = max(g.pace, d)
		}
	case keySitemap:
		if value != "" {
			p.f.sitemaps = append(p.f.sitemaps, value)
		}
	}
}

func (p *parser) agent(value string) {
	if !p.inList {
		p.f.groups = append(p.f.groups, group{})
		p.inList = true
	}
	name := token(value)
	// A star is everybody only if it stands alone: "*WordPress*" means clients by part of
	// their name, which is not in RFC 9309, and not us.
	if f := strings.Fields(value); len(f) > 0 && f[0] == "*" {
		name = "*"
	}
	if g := &p.f.groups[len(p.f.groups)-1]; name != "" {
		g.agents = append(g.agents, name)
	}
}

// rule adds to the current group. One before any group binds nobody, and one without a
// path says nothing, but ends the list all the same.
func (p *parser) rule(n int, allow bool, path string) {
	p.inList = false
	if len(p.f.groups) == 0 || path == "" {
		return
	}
	g := &p.f.groups[len(p.f.groups)-1]
	g.rules = append(g.rules, newRule(n, allow, path))
}

type key uint8

const (
	keyOther key = iota
	keyAgent
	keyAllow
	keyDisallow
	keyDelay
	keyRate
	keySitemap
)

// keyOf knows the names, with those misspellings that are common and whose author can only
// have meant one thing: reading them errs on the side of the host.
func keyOf(name string) key {
	switch strings.ToLower(name) {
	case "user-agent", "useragent", "user agent":
		return keyAgent
	case "allow":
		return keyAllow
	case "disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw":
		return keyDisallow
	case "crawl-delay", "crawldelay":
		return keyDelay
	case "request-rate", "requestrate", "request rate":
		return keyRate
	case "sitemap", "site-map":
		return keySitemap
	}
	return keyOther
}

// space is what may surround names and values. NUL is in it because files padded or
// damaged by it exist and no path begins or ends with one.
const space = " \t\v\f\x00"

// split reads "key: value". Some people forget the colon; then blanks stand in for it,
// provided that what follows is a single word.
func split(line string) (key, string) {
	line = strings.Trim(line, space)
	if name, value, ok := strings.Cut(line, ":"); ok {
		if k := keyOf(strings.Trim(name, space)); k != keyOther {
			return k, strings.Trim(value, space)
		}
	}
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return keyOther, ""
	}
	value := strings.Trim(line[i:], space)
	if strings.ContainsAny(value, " \t") {
		return keyOther, ""
	}
	return keyOf(line[:i]), value
}

// token is the product token that a value begins with, in lower case: "Bot/1.0 (x)" is
// for "bot". RFC 9309 knows letters, "_" and "-"; digits are read too, because real
// names have them and cutting at one would let a rule for one crawler bind another.
func token(value string) string {
	for i := range len(value) {
		c := value[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return strings.ToLower(value[:i])
		}
	}
	return strings.ToLower(value)
}

// Sitemaps are the sitemap URLs of the file as they are written, in order; they belong
// to no group. They may be anything, also of other hosts.
func (f *File) Sitemaps() []string { return slices.Clone(f.sitemaps) }

// Agent is the rules for a crawler with this product token: those of every group that
// names it, in any case, or else of every group for "*". A version after the token
// ("bot/1.0") is ignored.
func (f *File) Agent(name string) *Rules {
	name = token(name)
	r, found := f.collect(name)
	if !found {
		r, _ = f.collect("*")
	}
	return r.sorted()
}

// collect merges the groups for one name, and reports whether there is any.
func (f *File) collect(name string) (r *Rules, found bool) {
	r = new(Rules)
	for _, g := range f.groups {
		if slices.Contains(g.agents, name) {
			found = true
			r.rules = append(r.rules, g.rules...)
			// Of several delays the longest is the one that offends nobody.
			r.delay, r.pace = max(r.delay, g.delay), max(r.pace, g.pace)
		}
	}
	return r, found
}
