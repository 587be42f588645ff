package warc

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // see record.go
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/record"
)

// The profiles of revisits.
const (
	sameDigest  = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	notModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// maxHops bounds how much is written of a URL's path from its seed, one letter per link.
const maxHops = 1000

type original struct {
	uri, date, id string
	at            *place // where the record is that has date and ID; nil means that they are known
}

// memory knows which response has a payload. When it is full, it forgets the payload that was not found for longest;
// that payload is then stored once more.
type memory struct {
	lru *simplelru.LRU[[sha1.Size]byte, original] // nil remembers nothing
}

func newMemory(size int) (m memory, err error) {
	if size > 0 {
		m.lru, err = simplelru.NewLRU[[sha1.Size]byte, original](size, nil)
	}
	return m, err
}

func (m memory) find(d [sha1.Size]byte) (o original, ok bool) {
	if m.lru == nil {
		return o, false
	}
	if o, ok = m.lru.Get(d); !ok || o.at == nil {
		return o, ok
	}
	if o, ok = o.at.read(d); ok {
		m.lru.Add(d, o)
	} else {
		m.lru.Remove(d)
	}
	return o, ok
}

func (m memory) add(d [sha1.Size]byte, o original) {
	if m.lru != nil {
		m.lru.Add(d, o)
	}
}

// headerLength returns the length of the header of an HTTP message, including the empty line behind it. Without an
// empty line it returns the length of the message. Some servers end lines with a line feed alone.
func headerLength(message []byte) (n int) {
	for line := range bytes.Lines(message) {
		if n += len(line); len(bytes.TrimRight(line, "\r\n")) == 0 && line[len(line)-1] == '\n' {
			return n
		}
	}
	return n
}

type exchange struct {
	*record.Record
	head int // length of the header of its Response
	date string
	info string // ID of the file's warcinfo record
}

// answer returns the first record of the exchange, a response or a revisit. If later revisits may refer to that record,
// fresh is true and digest is that of its payload.
func (x *exchange) answer(known memory) (r *warcRecord, digest [sha1.Size]byte, fresh bool) {
	c := x.Exchange
	r = &warcRecord{
		kind: typeResponse, id: newID(), date: x.date, media: "application/http;msgtype=response",
		block: [][]byte{c.Response},
		fields: []Field{
			{"WARC-Target-URI", x.URL},
			{"WARC-Warcinfo-ID", x.info},
			{"WARC-IP-Address", address(x.RemoteAddr)},
			{"WARC-Protocol", protocol(x.Proto)},
		},
	}
	if x.Status == http.StatusNotModified {
		same := original{uri: x.URL}
		if !x.SameAs.IsZero() {
			same.date = dateOf(x.SameAs)
		}
		r.revisit(c.Response[:x.head], notModified, same)
		return r, digest, false
	}
	digest = sum(c.Payload)
	r.add("WARC-Payload-Digest", digestText(digest))
	if c.Truncated != "" || len(c.Payload) == 0 {
		r.add("WARC-Truncated", c.Truncated)
		return r, digest, false
	}
	if first, ok := known.find(digest); ok {
		r.revisit(c.Response[:x.head], sameDigest, first)
		return r, digest, false
	}
	return r, digest, true
}

// revisit turns a response into a revisit, which refers to an earlier response for its payload.
func (r *warcRecord) revisit(head []byte, profile string, to original) {
	r.kind, r.block = typeRevisit, [][]byte{head}
	r.add("WARC-Profile", profile)
	r.add("WARC-Refers-To", to.id)
	r.add("WARC-Refers-To-Target-URI", to.uri)
	r.add("WARC-Refers-To-Date", to.date)
}

// beside returns another record of the exchange, whose first record has the ID answer.
func (x *exchange) beside(kind, media, answer string, block []byte) *warcRecord {
	return &warcRecord{
		kind: kind, id: newID(), date: x.date, media: media, block: [][]byte{block},
		fields: []Field{{"WARC-Target-URI", x.URL}, {"WARC-Warcinfo-ID", x.info}, {"WARC-Concurrent-To", answer}},
	}
}

func (x *exchange) about(answer string) *warcRecord {
	return x.beside(typeMetadata, "application/warc-fields", answer, appendFields(nil, x.metadata()))
}

// metadata returns what the crawl knows about the exchange, under the names that Heritrix uses.
func (x *exchange) metadata() []Field {
	hops := strings.Repeat("L", min(max(x.Depth, 0), maxHops)) // found on a link
	if x.Kind == "robots" {
		hops += "P" // a precondition
	}
	fields := []Field{
		{"via", x.Referrer},
		{"hopsFromSeed", hops},
		{"fetchTimeMs", strconv.FormatInt(max(x.Timings.Total.Milliseconds(), 0), 10)},
		{"robots-directives", strings.Join(x.Directives, ", ")}, // a name of our own: there is no common one
	}
	for _, u := range x.Links {
		fields = append(fields, Field{"outlink", u + " L"})
	}
	for _, u := range x.Resources {
		fields = append(fields, Field{"outlink", u + " E"}) // embedded
	}
	return fields
}

// address returns the IP address of an address with port; empty if it is none.
func address(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	return at.Addr().Unmap().WithZone("").String()
}

// protocol returns the name of a protocol in WARC-Protocol. Messages of HTTP/2, which has no textual form, are written
// like those of HTTP/1.1.
func protocol(proto string) string {
	if strings.HasPrefix(proto, "HTTP/2") {
		return "h2"
	}
	return strings.ToLower(proto)
}

// maskFields replaces the values of the header fields that secret selects by [redact.Mask], because archives are passed
// on. A message without such fields is returned as it is, any other as a copy.
func maskFields(request []byte, secret func(name string) bool) []byte {
	var shown []byte
	kept := 0 // how many bytes of the request are in shown
	for at := 0; at < len(request); {
		n := bytes.IndexByte(request[at:], '\n')
		if n <= 1 { // the empty line, or the end
			break
		}
		line := request[at : at+n]
		name, _, ok := bytes.Cut(line, []byte(":"))
		if ok && at > 0 && secret(string(name)) {
			shown = append(append(append(shown, request[kept:at]...), name...), ": "+redact.Mask...)
			kept = at + len(bytes.TrimRight(line, "\r"))
		}
		at += n + 1
	}
	if shown == nil {
		return request
	}
	return append(shown, request[kept:]...)
}
