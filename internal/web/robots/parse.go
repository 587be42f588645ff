// Package robots reads robots.txt (RFC 9309) and decides what may be requested.
//
// [Parse] reads a [File] and never fails: it uses every line that it can read. [File.Agent] selects the [Rules] of one
// crawler, and [Rules.Check] returns a [Decision] on a path, with the line that decided.
//
// A [Cache] keeps the rules of each origin, which is unknown, pending while its file is requested, known, or
// unreachable. The caller looks up the origin before it fetches one of its URLs; while there are no rules the URL
// waits. If [Cache.Begin] returns true, the caller requests robots.txt, paced like every request, and passes the result
// of [FromAnswer] to [Cache.Answer].
//
// By section 2.3.1, a file is obeyed for a day; the caller follows up to five redirects; 4xx other than 429 allows
// everything; after 429 the file is requested again later; 5xx and an unreachable host forbid everything until a later
// request succeeds, but an earlier copy stays in force for a day longer. Crawl-delay and Request-rate, which are not in
// RFC 9309, become [Rules.Pause].
//
// The package reads no clock, does not wait and does no I/O. Files and Rules are immutable; a Cache is safe for
// concurrent use.
package robots

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/encoding/unicode"

	"github.com/treadlight/crawl/internal/lazy"
)

// MaxBytes is how much of a file is read, in bytes: the least that RFC 9309 section 2.5 allows.
const MaxBytes = 500 << 10

// File is a parsed robots.txt. The zero File allows everything. Its memory is a small multiple of MaxBytes.
type File struct {
	groups   []group
	sitemaps []string
}

type group struct {
	agents []string // product tokens in lower case, or "*"
	rules  []rule
	pause  time.Duration // between two requests
}

// Parse reads the first MaxBytes of a file and skips lines that are not valid.
func Parse(body []byte) *File {
	p := parser{f: new(File)}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(textOf(body))
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		p.line(n, line)
	}
	return p.f
}

// textOf returns the first MaxBytes of a file as UTF-8, without a byte order mark, even a truncated one, and without
// the last line if the limit may have cut it. UTF-16 is read if it has a mark.
func textOf(body []byte) string {
	limited := len(body) >= MaxBytes
	body = body[:min(len(body), MaxBytes)]
	if bytes.HasPrefix(body, []byte("\xff\xfe")) || bytes.HasPrefix(body, []byte("\xfe\xff")) {
		body, _ = unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM).NewDecoder().Bytes(body) // cannot fail, because the mark is there
	}
	for _, mark := range []string{"\xef\xbb\xbf", "\xef\xbb", "\xef"} {
		if rest, ok := bytes.CutPrefix(body, []byte(mark)); ok {
			body = rest
			break
		}
	}
	if limited {
		body = body[:bytes.LastIndexAny(body, "\r\n")+1]
	}
	return string(body)
}

// parser is the state of Parse. Only a rule ends a list of User-agent lines (RFC 9309 section 2.2.4).
type parser struct {
	f      *File
	inList bool // of rules and User-agent lines, the last was a User-agent line
}

func (p *parser) line(n int, text string) {
	text, _, _ = strings.Cut(text, "#")
	key, value := split(text)
	switch key {
	case "user-agent":
		if !p.inList {
			p.f.groups = append(p.f.groups, group{})
			p.inList = true
		}
		name := token(value)
		if f := strings.Fields(value); len(f) > 0 && f[0] == "*" { // not "*WordPress*", which is not in RFC 9309
			name = "*"
		}
		if g := p.group(); name != "" {
			g.agents = append(g.agents, name)
		}
	case "allow", "disallow": // before any group it applies to nobody; without a path it only ends the list of agents
		p.inList = false
		if g := p.group(); g != nil && value != "" {
			g.rules = append(g.rules, newRule(n, key == "allow", value))
		}
	case "crawl-delay":
		p.pause(parseDelay(value))
	case "request-rate":
		p.pause(parseRate(value))
	case "sitemap":
		if value != "" {
			p.f.sitemaps = append(p.f.sitemaps, value)
		}
	}
}

// pause keeps the longest pause of a group; zero means none.
func (p *parser) pause(d time.Duration) {
	if g := p.group(); g != nil {
		g.pause = max(g.pause, d)
	}
}

func (p *parser) group() *group {
	if len(p.f.groups) == 0 {
		return nil
	}
	return &p.f.groups[len(p.f.groups)-1]
}

// keys maps the names of lines that matter, and common misspellings, to the names.
var keys = map[string]string{
	"user-agent": "user-agent", "useragent": "user-agent", "user agent": "user-agent", "allow": "allow",
	"disallow": "disallow", "dissallow": "disallow", "dissalow": "disallow", "disalow": "disallow",
	"diasllow": "disallow", "disallaw": "disallow",
	"crawl-delay": "crawl-delay", "crawldelay": "crawl-delay", "sitemap": "sitemap", "site-map": "sitemap",
	"request-rate": "request-rate", "requestrate": "request-rate", "request rate": "request-rate",
}

// space is what may surround names and values; damaged files contain NUL.
const space = " \t\v\f\x00"

// split splits "key: value", or "key value" if the value is one word.
func split(line string) (key, value string) {
	line = strings.Trim(line, space)
	if name, value, ok := strings.Cut(line, ":"); ok {
		if key := keys[strings.ToLower(strings.Trim(name, space))]; key != "" {
			return key, strings.Trim(value, space)
		}
	}
	if words := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' }); len(words) == 2 {
		return keys[strings.ToLower(words[0])], strings.Trim(words[1], space)
	}
	return "", ""
}

// token returns the product token at the beginning of value, in lower case: "bot" for "Bot/1.0 (x)". Unlike in RFC 9309
// it may contain digits, because real names do.
func token(value string) string {
	end := strings.IndexFunc(value, func(c rune) bool {
		return (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-'
	})
	if end < 0 {
		end = len(value)
	}
	return strings.ToLower(value[:end])
}

// Sitemaps returns the sitemap URLs as they are written, in order, of any host.
func (f *File) Sitemaps() []string { return slices.Clone(f.sitemaps) }

// Agent returns the rules of all groups for this product token or, if there are none, of all groups for "*". A version
// after the token ("bot/1.0") is ignored.
func (f *File) Agent(name string) *Rules {
	name = token(name)
	r, found := f.collect(name)
	if !found {
		r, _ = f.collect("*")
	}
	return r.sorted()
}

// Group returns the product token whose groups apply to this one: itself in lower case, "*", or the empty string if
// none do.
func (f *File) Group(name string) string {
	for _, name := range []string{token(name), "*"} {
		if _, found := f.collect(name); found {
			return name
		}
	}
	return ""
}

// collect merges the groups for one name and reports whether there are any.
func (f *File) collect(name string) (r *Rules, found bool) {
	r = new(Rules)
	for _, g := range f.groups {
		if slices.Contains(g.agents, name) {
			found = true
			r.rules = append(r.rules, g.rules...)
			r.pause = max(r.pause, g.pause)
		}
	}
	return r, found
}

// maxPause bounds Crawl-delay and Request-rate.
const maxPause = 24 * time.Hour

var (
	delayForm = lazy.Regexp(`^(?:\d+\.?\d*|\.\d+)$`)
	// rateForm may end in a time of day, such as "0600-0845" or "06:00 - 08:45" with or without UTC.
	rateForm = lazy.Regexp(`(?i)^(\d+)[ \t]*/[ \t]*(\d+)([smh]?)(?:[ \t]+\d\d?:?\d\d[ \t]*-[ \t]*\d\d?:?\d\d[ \t]*(?:z|gmt|utc)?)?$`)
)

func parseDelay(value string) time.Duration {
	if !delayForm().MatchString(value) {
		return 0
	}
	seconds, _ := strconv.ParseFloat(value, 64) // too many digits give +Inf
	return time.Duration(min(seconds*float64(time.Second), float64(maxPause)))
}

// parseRate returns the pause for "n/t", n requests in every t seconds, minutes or hours, rounded up. It ignores a time
// of day: the pause applies around the clock. For every other text, and for a rate of no requests, it returns zero.
func parseRate(value string) time.Duration {
	m := rateForm().FindStringSubmatch(value)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	t, _ := strconv.ParseFloat(m[2], 64)
	if n == 0 || math.IsInf(n, 1) {
		return 0
	}
	unit := map[string]time.Duration{"m": time.Minute, "h": time.Hour}[strings.ToLower(m[3])]
	return time.Duration(math.Ceil(min(t*float64(max(unit, time.Second))/n, float64(maxPause))))
}
