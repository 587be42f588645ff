// Package facts is what an audit keeps of each URL: all that the rules need, and little enough for one line in a file.
// It keeps nothing of the body.
//
// [Read], [ReadMap] and [ReadRobots] make a [Page] of what the crawl has fetched. Links are texts that begin with their
// [Kind]. The file is compressed, since a sitemap may have 50,000 URLs.
package facts

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
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
	URL     string `json:"url"`
	Kind    string `json:"kind,omitempty"`
	Method  string `json:"method,omitempty"` // empty means GET
	Status  int    `json:"status,omitempty"`
	Class   string `json:"class,omitempty"` // of the error, as in records
	Message string `json:"message,omitempty"`
	Wall    bool   `json:"wall,omitempty"` // a refusal that looks like a defense against robots
	To      string `json:"to,omitempty"`   // where it redirects to
	Type    string `json:"type,omitempty"` // media type
	Size    int64  `json:"size,omitempty"`
	Millis  int64  `json:"ms,omitempty"` // from the request to the last byte, in milliseconds
	Cut     bool   `json:"cut,omitempty"`
	At      int64  `json:"at,omitempty"` // of Outside: when it was fetched, in seconds since 1970
	Digest  string `json:"digest,omitempty"`

	HTML *HTML `json:"html,omitempty"`
	// Links are those of a page, or the URLs that a sitemap lists; see [Link].
	Links []string `json:"links,omitempty"`
	// Problems of a sitemap or robots.txt, in words.
	Problems []string `json:"problems,omitempty"`
}

// HTML is what is known of an HTML page with the status 200.
type HTML struct {
	Titles, Descriptions, Headings []string `json:",omitempty"` // at most MaxTexts of each; headings are h1
	Lang                           string   `json:",omitempty"`
	Canonicals                     []Ref    `json:",omitempty"` // those that search engines obey: not in the body
	Languages                      []Ref    `json:",omitempty"` // hreflang
	NoIndex                        bool     `json:",omitempty"`
	Refresh                        string   `json:",omitempty"` // the target of a meta refresh
	IDs                            []uint32 `json:",omitempty"` // hashes of what a fragment can name
	Words                          int      `json:",omitempty"` // of the main text, outside of navigation and footers
	Empty                          bool     `json:",omitempty"` // neither text nor media
	Sim                            uint64   `json:",omitempty"` // SimHash of the main text
	// Found is what is wrong with the page whatever other pages have, and Lacks what it lacks of what most have, by the
	// IDs of the rules. Lacks has them in one text, which takes less memory.
	Found map[string]Sample `json:",omitempty"`
	Lacks string            `json:",omitempty"`
}

// Ref is a URL that a page names as its canonical URL, or as a translation.
type Ref struct {
	Raw string // as written
	URL string // resolved; empty if it is no URL
	By  string // the code of the translation; of a canonical URL "head" or "header"
}

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

// note counts something that is wrong with the page, and keeps the text if there is room.
func (h *HTML) note(rule, text string) {
	t := h.Found[rule]
	if text = clip(text); len(t.First) < maxSample && !slices.Contains(t.First, text) {
		t.First = append(t.First, text)
	}
	t.N++
	h.Found[rule] = t
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

// The kinds.
const (
	Anchor     Kind = 'a' // a link to click, or a frame
	Named      Kind = 'l' // named by a link element, a header and the like
	Resource   Kind = 'r' // loaded with the page
	Part       Kind = 'p' // a resource that may be loaded, such as an image for larger screens
	Out        Kind = 'A' // out of scope
	Unchecked  Kind = 'u' // out of scope because the user excludes it
	Translated Kind = 't' // of a sitemap that lists other languages of the URL
)

// Link encodes a link as text: its kind, its URL and its fragment.
func Link(kind Kind, url, fragment string) string {
	if fragment != "" {
		url += "#" + fragment
	}
	return string(kind) + url
}

// ParseLink decodes what Link has encoded. It accepts any text.
func ParseLink(text string) (kind Kind, url, fragment string) {
	if text == "" {
		return 0, "", ""
	}
	url, fragment, _ = strings.Cut(text[1:], "#")
	return Kind(text[0]), url, fragment
}

var origin = lazy.Regexp(`^https?://[^/?]*`)

// Origin returns the scheme and host of a canonical URL.
func Origin(url string) string { return origin().FindString(url) }

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

// Hash keeps 32 bits of an ID: one in four billion is mistaken for another.
func Hash(id string) uint32 { return crc32.ChecksumIEEE([]byte(id)) }

// HasID reports whether the page has what a fragment names.
func (h *HTML) HasID(fragment string) bool { return slices.Contains(h.IDs, Hash(fragment)) }
