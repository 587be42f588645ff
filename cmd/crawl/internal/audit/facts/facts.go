// Package facts is what an audit keeps of each URL: small enough for a file line by line, and all that rules need. Of the
// body nothing is kept.
//
// A [Reader] makes a [Page] of what the crawl has fetched. Links are texts that begin with their [Kind], without the
// origin of the page if it is the same; long lists are compressed, as a sitemap has 50,000 URLs.
package facts

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"io"
	"slices"
	"strings"
)

// What a URL was asked for as.
const (
	Ordinary = ""        // a page of the site, or what one is made of
	Outside  = "outside" // the target of a link that leads out of scope
	Map      = "sitemap"
	Feed     = "feed"
	Robots   = "robots" // the robots.txt of a host
)

// Page is what is known of one URL.
type Page struct {
	URL      string `json:"url"`
	Kind     string `json:"kind,omitempty"`
	Method   string `json:"method,omitempty"` // empty: GET
	Status   int    `json:"status,omitempty"`
	Class    string `json:"class,omitempty"` // of the error, as in records
	Message  string `json:"message,omitempty"`
	Wall     bool   `json:"wall,omitempty"` // a refusal with the marks of a wall against robots
	To       string `json:"to,omitempty"`   // where it redirects
	Type     string `json:"type,omitempty"` // media type
	Referrer string `json:"from,omitempty"`
	Size     int64  `json:"size,omitempty"`
	Millis   int64  `json:"ms,omitempty"` // from the request to the last byte
	Cut      bool   `json:"cut,omitempty"`
	At       int64  `json:"at,omitempty"` // when, in seconds since 1970; of other sites
	Digest   string `json:"digest,omitempty"`

	HTML *HTML `json:"html,omitempty"`
	// Links of a page, or the URLs that a sitemap lists; see [Link].
	Links Strings `json:"links,omitempty"`
	// Alternated are the URLs of a sitemap that have other languages there.
	Alternated Strings `json:"alternated,omitempty"`
	// Problems of a sitemap or robots.txt, in words.
	Problems []string `json:"problems,omitempty"`
}

// HTML is what is known of an HTML page with a status of 200.
type HTML struct {
	Titles, Descriptions, Headings []string    `json:",omitempty"` // at most maxTexts; headings are h1
	TitleBelow                     bool        `json:",omitempty"` // a title element stands in the body
	Lang                           string      `json:",omitempty"`
	Canonicals                     []Canonical `json:",omitempty"`
	Languages                      []Alternate `json:",omitempty"` // hreflang
	Meta, Header                   []string    `json:",omitempty"` // directives for robots, in lower case
	Refresh                        string      `json:",omitempty"` // where a meta refresh leads
	IDs                            Hashes      `json:",omitempty"` // what fragments can name
	NoAlt, Mixed, BadLinks         Sample      `json:",omitzero"`
	NoText, Forms, LocalLinks      Sample      `json:",omitzero"`
	BadJSON                        Sample      `json:",omitzero"`
	Words                          int         `json:",omitempty"` // without navigation and footers
	Empty                          bool        `json:",omitempty"` // nothing to read or to look at
	Filler                         bool        `json:",omitempty"` // lorem ipsum
	Sim                            uint64      `json:",omitempty"` // fingerprint of the main text
	Protected                      Protection  `json:",omitempty"`
}

// Canonical is a canonical URL that a page names.
type Canonical struct {
	Raw   string // as it is written
	URL   string // resolved; empty: it is none
	Where string // "head", "body" or "header"
}

// Alternate is a page in another language.
type Alternate struct{ Code, Raw, URL string }

// Protection is the set of security headers that a response has.
type Protection uint8

// The security headers.
const (
	HSTS Protection = 1 << iota
	CSP
	NoSniff
	Frame
	ReferrerPolicy
)

// Sample is a count and the first few.
type Sample struct {
	N     int      `json:",omitempty"`
	First []string `json:",omitempty"`
}

const (
	maxSample = 5
	maxTexts  = 5
	maxText   = 400 // bytes of a title, a detail, a fragment
)

// Add counts s.
func (t *Sample) Add(s string) {
	if t.N++; len(t.First) < maxSample && !slices.Contains(t.First, clip(s)) {
		t.First = append(t.First, clip(s))
	}
}

// clip cuts s to maxText bytes of valid UTF-8 in one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// Kind is how a page links.
type Kind byte

// The kinds. Capital letters are links that lead out of scope.
const (
	Anchor          Kind = 'a' // what a reader can click, and frames
	Named           Kind = 'l' // named by link elements, headers and the like
	Resource        Kind = 'r'
	OutsideAnchor   Kind = 'A'
	OutsideResource Kind = 'R'
	Unchecked       Kind = 'u' // out of scope by the wish of the user
)

// Link is a link as text: kind, URL without origin if that is the page's, and fragment.
func Link(kind Kind, origin, url, fragment string) string {
	if rest, same := strings.CutPrefix(url, origin); same && strings.HasPrefix(rest, "/") {
		url = rest
	}
	if fragment != "" {
		url += "#" + fragment
	}
	return string(kind) + url
}

// ParseLink is the reverse. It takes any text.
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

// Origin is the scheme and host of a canonical URL.
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

// Strings is a list whose JSON is compressed if it is long.
type Strings []string

// longList is the size from which that is worth it, in bytes.
const longList = 2 << 10

// maxList bounds a list that is read, in bytes.
const maxList = 64 << 20

// MarshalJSON writes an array, or a text: base64 of deflated lines.
func (s Strings) MarshalJSON() ([]byte, error) {
	text := strings.Join(s, "\n")
	if len(text) < longList {
		return json.Marshal([]string(s))
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil { // the level is one
		return nil, err
	}
	_, _ = io.WriteString(w, text) // a buffer takes all
	_ = w.Close()
	return json.Marshal(b.Bytes())
}

// UnmarshalJSON reads either.
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

// Hashes is a set of texts of which 32 bits each are known: one in four billion is taken for another.
type Hashes []uint32

// HashesOf is the set of texts.
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
	_, _ = io.WriteString(f, s) // it never fails
	return f.Sum32()
}

// Has reports whether a text is in the set.
func (h Hashes) Has(text string) bool {
	_, found := slices.BinarySearch(h, hash(text))
	return found
}

// MarshalText writes base64.
func (h Hashes) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 4*len(h))
	for _, x := range h {
		raw = binary.LittleEndian.AppendUint32(raw, x)
	}
	return base64.RawStdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText reads it.
func (h *Hashes) UnmarshalText(text []byte) error {
	raw, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil {
		return err
	}
	*h = make(Hashes, 0, len(raw)/4)
	for ; len(raw) >= 4; raw = raw[4:] {
		*h = append(*h, binary.LittleEndian.Uint32(raw))
	}
	return nil
}
