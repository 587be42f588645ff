// Package facts is what an audit keeps of each URL: all that the rules need, and little enough for one line in a file.
// It keeps nothing of the body.
//
// [Read], [ReadMap] and [ReadRobots] make a [Page] of what the crawl has fetched. Links are texts that begin with their
// [Kind], without the origin if it is that of the page. Long lists are compressed, since a sitemap may have 50,000
// URLs.
package facts

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/records/recordfile"
)

// The kinds of a Page.
const (
	Ordinary = ""        // a page of the site, or a resource of one
	Outside  = "outside" // the target of a link that leads out of scope
	Map      = "sitemap"
	Feed     = "feed"
	Robots   = "robots" // the robots.txt of a host
)

// Page is what is known of a URL.
type Page struct {
	URL      string `json:"url"`
	Kind     string `json:"kind,omitempty"`
	Method   string `json:"method,omitempty"` // empty means GET
	Status   int    `json:"status,omitempty"`
	Class    string `json:"class,omitempty"` // of the error, as in records
	Message  string `json:"message,omitempty"`
	Wall     bool   `json:"wall,omitempty"` // a refusal that looks like a defense against robots
	To       string `json:"to,omitempty"`   // where it redirects to
	Type     string `json:"type,omitempty"` // media type
	Referrer string `json:"from,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Millis   int64  `json:"ms,omitempty"` // from the request to the last byte, in milliseconds
	Cut      bool   `json:"cut,omitempty"`
	At       int64  `json:"at,omitempty"` // of Outside: when it was fetched, in seconds since 1970
	Digest   string `json:"digest,omitempty"`

	HTML *HTML `json:"html,omitempty"`
	// Links are those of a page, or the URLs that a sitemap lists; see [Link].
	Links Strings `json:"links,omitempty"`
	// Alternated are the URLs of a sitemap for which it lists other languages.
	Alternated Strings `json:"alternated,omitempty"`
	// Problems of a sitemap or robots.txt, in words.
	Problems []string `json:"problems,omitempty"`
}

// HTML is what is known of an HTML page with the status 200.
type HTML struct {
	Titles, Descriptions, Headings []string    `json:",omitempty"` // at most MaxTexts of each; headings are h1
	TitleBelow                     bool        `json:",omitempty"` // a title element is in the body
	Lang                           string      `json:",omitempty"`
	Canonicals                     []Canonical `json:",omitempty"`
	Languages                      []Alternate `json:",omitempty"` // hreflang
	Meta, Header                   []string    `json:",omitempty"` // directives for robots, in lower case
	Refresh                        string      `json:",omitempty"` // the target of a meta refresh
	IDs                            Hashes      `json:",omitempty"` // what a fragment can name
	NoAlt, Mixed, BadLinks         Sample      `json:",omitzero"`
	NoText, Forms, LocalLinks      Sample      `json:",omitzero"`
	BadJSON                        Sample      `json:",omitzero"`
	Words                          int         `json:",omitempty"` // of text outside of navigation and footers
	Empty                          bool        `json:",omitempty"` // neither text nor media
	Filler                         bool        `json:",omitempty"` // lorem ipsum
	Sim                            uint64      `json:",omitempty"` // SimHash of the main text
	Protected                      Protection  `json:",omitempty"`
}

// Canonical is a canonical URL that a page names.
type Canonical struct {
	Raw   string // as written
	URL   string // resolved; empty if it is no URL
	Where string // "head", "body" or "header"
}

// Alternate is a translation that a page names.
type Alternate struct{ Code, Raw, URL string }

// Protection is the set of security headers of a response.
type Protection uint8

// The security headers.
const (
	HSTS Protection = 1 << iota
	CSP
	NoSniff
	Frame
	ReferrerPolicy
)

// Sample counts texts and keeps the first few.
type Sample struct {
	N     int      `json:",omitempty"`
	First []string `json:",omitempty"`
}

// Bounds of texts.
const (
	maxSample = 5
	MaxTexts  = 5   // titles, descriptions and headings of a page
	MaxText   = 400 // bytes of a title, a detail or a fragment; a longer one ends in an ellipsis
)

// Add counts s, and keeps it if there is room.
func (t *Sample) Add(s string) {
	if t.N++; len(t.First) < maxSample && !slices.Contains(t.First, clip(s)) {
		t.First = append(t.First, clip(s))
	}
}

// clip cuts s to MaxText bytes of valid UTF-8 in one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) <= MaxText {
		return s
	}
	return strings.ToValidUTF8(s[:MaxText], "") + "…"
}

// Kind is how a page links to a URL.
type Kind byte

// The kinds. A capital letter means that the link leads out of scope.
const (
	Anchor          Kind = 'a' // a link to click, or a frame
	Named           Kind = 'l' // named by a link element, a header and the like
	Resource        Kind = 'r'
	OutsideAnchor   Kind = 'A'
	OutsideResource Kind = 'R'
	Unchecked       Kind = 'u' // out of scope because the user excludes it
)

// Link encodes a link as text: its kind, its URL without origin if the URL has that origin, and its fragment.
func Link(kind Kind, origin, url, fragment string) string {
	if rest, same := strings.CutPrefix(url, origin); same && strings.HasPrefix(rest, "/") {
		url = rest
	}
	if fragment != "" {
		url += "#" + fragment
	}
	return string(kind) + url
}

// ParseLink decodes what Link has encoded. It accepts any text.
func ParseLink(text, origin string) (kind Kind, url, fragment string) {
	if text == "" {
		return 0, "", ""
	}
	kind = Kind(text[0])
	url, fragment, _ = strings.Cut(text[1:], "#")
	if strings.HasPrefix(url, "/") {
		url = origin + url
	}
	return kind, url, fragment
}

// Origin returns the scheme and host of a canonical URL, or "" if it has no scheme.
func Origin(url string) string {
	from := strings.Index(url, "://") + len("://")
	if from < len("://") {
		return ""
	}
	if n := strings.IndexAny(url[from:], "/?"); n >= 0 {
		return url[:from+n]
	}
	return url
}

// Each reads a file of facts, one line of JSON each, and calls take with those whose line has a text. It ignores a last
// line without a line feed, which was not committed.
func Each(path, with string, take func(*Page)) error {
	file, err := recordfile.Open(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	return file.Each(context.Background(), 0, func(line recordfile.Line) error {
		if !line.Whole || !bytes.Contains(line.Text, []byte(with)) {
			return nil
		}
		f := new(Page)
		if err := recordfile.Decode(line, nil, f, nil); err != nil {
			return fmt.Errorf("line %d of the facts: %w", line.Number, err)
		}
		take(f)
		return nil
	})
}

// Strings is a list that is compressed in JSON if it is long.
type Strings []string

// longList is the size in bytes from which compression is worth it.
const longList = 2 << 10

// maxList bounds a compressed list that is read, in bytes.
const maxList = 64 << 20

// MarshalJSON returns an array, or for a long list a string: base64 of deflated lines.
func (s Strings) MarshalJSON() ([]byte, error) {
	text := strings.Join(s, "\n")
	if len(text) < longList {
		return json.Marshal([]string(s))
	}
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestSpeed) // the level is valid
	_, _ = io.WriteString(w, text)               // a Buffer never fails
	_ = w.Close()
	return json.Marshal(b.Bytes())
}

// UnmarshalJSON decodes both forms.
func (s *Strings) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '"' {
		return json.Unmarshal(data, (*[]string)(s))
	}
	var packed []byte
	if err := json.Unmarshal(data, &packed); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxList))
	if err != nil {
		return err
	}
	*s = strings.Split(string(text), "\n")
	return nil
}

// Hashes is a set of texts that keeps 32 bits of each: one text in four billion is mistaken for another.
type Hashes []uint32

// HashesOf returns the set of texts.
func HashesOf(texts []string) Hashes {
	h := make(Hashes, len(texts))
	for i, text := range texts {
		h[i] = hash(text)
	}
	slices.Sort(h)
	return slices.Compact(h)
}

func hash(s string) uint32 {
	f := fnv.New32a()
	_, _ = io.WriteString(f, s) // a hash never fails
	return f.Sum32()
}

// Has reports whether a text is in the set.
func (h Hashes) Has(text string) bool {
	_, found := slices.BinarySearch(h, hash(text))
	return found
}
