package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/document/jsontext"
)

// object appends the fields of one JSON object. Its methods leave empty values out, but for number: a zero is worth a
// column in some fields and not in others, so that is for the caller to know.
type object struct {
	buf   []byte
	comma bool
}

// name begins a field. Names are ours and need no escaping.
func (o *object) name(name string) {
	if o.comma {
		o.buf = append(o.buf, ',')
	}
	o.comma = true
	o.buf = append(append(append(o.buf, '"'), name...), `":`...)
}

func (o *object) text(name, s string) {
	if s != "" {
		o.name(name)
		o.buf = jsontext.AppendString(o.buf, s)
	}
}

func (o *object) number(name string, n int64) {
	o.name(name)
	o.buf = strconv.AppendInt(o.buf, n, 10)
}

// some is number for what is left out if it is zero.
func (o *object) some(name string, n int) {
	if n != 0 {
		o.number(name, int64(n))
	}
}

func (o *object) time(name string, t time.Time) {
	o.name(name)
	o.buf = append(jsontext.AppendTime(append(o.buf, '"'), t), '"')
}

// must is text for what is there even if empty.
func (o *object) must(name, s string) {
	o.name(name)
	o.buf = jsontext.AppendString(o.buf, s)
}

func (o *object) list(name string, values []string) {
	if len(values) > 0 {
		o.name(name)
		o.buf = jsontext.AppendArray(o.buf, values, jsontext.AppendString)
	}
}

// AppendJSON appends r as one line of JSON, with the line's end: the line of the command's records. URL, kind, depth,
// fetched_at, attempt, bytes and wire_bytes are always there, the rest is left out when empty. Times are RFC 3339 in UTC
// with milliseconds; durations are milliseconds with up to three decimals. The line is valid UTF-8 without control, line
// or direction characters, whatever a server sent, so that it can be shown on a terminal.
func (r *Record) AppendJSON(dst []byte) []byte { // by hand: reflection would be dearer than finding the links was
	o := object{buf: append(dst, '{')}
	o.must("url", r.URL)
	o.must("kind", r.Kind)
	o.text("method", r.Method)
	o.text("id", r.ID)
	o.some("status", r.Status)
	o.number("depth", int64(r.Depth))
	o.text("referrer", r.Referrer)
	o.time("fetched_at", r.FetchedAt)
	o.number("attempt", int64(r.Attempt))
	o.text("redirect_to", r.RedirectTo)
	o.content(r)
	o.text("body", r.Body)
	if len(r.BodyBase64) > 0 {
		o.name("body_base64")
		o.buf = append(base64.StdEncoding.AppendEncode(append(o.buf, '"'), r.BodyBase64), '"')
	}
	if r.Rendered != nil {
		o.name("rendered")
		o.buf = appendRendered(o.buf, r.Rendered)
	}
	if r.Timings != (Timings{}) {
		o.name("timings_ms")
		o.buf = appendTimings(o.buf, &r.Timings)
	}
	o.text("remote_addr", r.RemoteAddr)
	o.text("proto", r.Proto)
	if r.Error != nil {
		o.name("error")
		e := object{buf: append(o.buf, '{')}
		e.must("class", r.Error.Class)
		e.must("message", r.Error.Message)
		o.buf = append(e.buf, '}')
	}
	return append(o.buf, "}\n"...)
}

func (o *object) content(r *Record) {
	o.text("content_type", r.ContentType)
	o.text("charset", r.Charset)
	o.text("ignored_codings", r.IgnoredCodings)
	o.number("bytes", r.Bytes)
	o.number("wire_bytes", r.WireBytes)
	if r.Truncated {
		o.name("truncated")
		o.buf = append(o.buf, "true"...)
	}
	o.text("digest", r.Digest)
	o.text("change", r.Change)
	o.text("simhash", r.SimHash)
	o.text("duplicate", r.Duplicate)
	o.text("duplicate_of", r.DuplicateOf)
	o.text("title", r.Title)
	o.text("lang", r.Lang)
	if r.Meta != (Meta{}) {
		o.name("meta")
		o.buf = appendMeta(o.buf, &r.Meta)
	}
	if r.Sitemap != nil {
		o.name("sitemap")
		o.buf = appendSitemap(o.buf, r.Sitemap)
	}
	o.list("directives", r.Directives)
	if len(r.Alternates) > 0 {
		o.name("alternates")
		o.buf = jsontext.AppendArray(o.buf, r.Alternates, appendAlternate)
	}
	o.text("next", r.Next)
	o.text("prev", r.Prev)
	o.list("links", r.Links)
	o.list("resources", r.Resources)
	o.list("nofollow_links", r.NofollowLinks)
	o.text("text", r.Text)
	o.named("fields", r.Fields)
	o.text("fields_error", r.FieldsError)
	o.named("properties", r.Properties)
	o.raw("json_ld", r.JSONLD)
	o.some("json_ld_invalid", r.InvalidJSONLD)
	o.text("main_text", r.MainText)
	o.text("markdown", r.Markdown)
}

func appendAlternate(dst []byte, a Alternate) []byte {
	o := object{buf: append(dst, '{')}
	o.must("href", a.Href)
	o.text("hreflang", a.HrefLang)
	o.text("type", a.Type)
	return append(o.buf, '}')
}

func appendMeta(dst []byte, m *Meta) []byte {
	o := object{buf: append(dst, '{')}
	o.text("description", m.Description)
	o.text("robots", m.Robots)
	o.text("generator", m.Generator)
	o.text("canonical", m.Canonical)
	o.text("og_title", m.OGTitle)
	o.text("og_type", m.OGType)
	o.text("og_image", m.OGImage)
	return append(o.buf, '}')
}

func appendSitemap(dst []byte, s *Sitemap) []byte {
	o := object{buf: append(dst, '{')}
	o.must("format", s.Format)
	o.number("urls", int64(s.URLs))
	o.some("sitemaps", s.Sitemaps)
	o.some("extras", s.Extras)
	o.some("dropped", s.Dropped)
	o.some("problems", s.Problems)
	o.text("problem", s.Problem)
	if !s.LastModified.IsZero() {
		o.time("last_modified", s.LastModified)
	}
	return append(o.buf, '}')
}

func appendRendered(dst []byte, r *Rendered) []byte {
	o := object{buf: append(dst, '{')}
	o.must("why", r.Why)
	o.some("requests", r.Requests)
	o.some("refused", r.Refused)
	o.text("screenshot", r.Screenshot)
	o.text("pdf", r.PDF)
	return append(o.buf, '}')
}

func appendTimings(dst []byte, t *Timings) []byte {
	o := object{buf: append(dst, '{')}
	for i, d := range t.all() {
		if *d >= time.Microsecond {
			o.name(timingNames[i])
			o.buf = jsontext.AppendMillis(o.buf, *d)
		}
	}
	return append(o.buf, '}')
}

// timingNames are the fields in JSON, in the order of all.
var timingNames = [...]string{"queue", "permit_wait", "dns", "connect", "tls", "first_byte", "body", "total", "render"}

func (t *Timings) all() [len(timingNames)]*time.Duration {
	return [...]*time.Duration{&t.Queue, &t.PermitWait, &t.DNS, &t.Connect, &t.TLS, &t.FirstByte, &t.Body, &t.Total, &t.Render}
}

// MarshalJSON writes milliseconds.
func (t Timings) MarshalJSON() ([]byte, error) { return appendTimings(nil, &t), nil }

// UnmarshalJSON reads milliseconds.
func (t *Timings) UnmarshalJSON(data []byte) error {
	var ms map[string]float64
	if err := json.Unmarshal(data, &ms); err != nil {
		return err
	}
	*t = Timings{}
	for i, d := range t.all() {
		*d = time.Duration(math.Round(ms[timingNames[i]]*1000)) * time.Microsecond
	}
	return nil
}

// MarshalJSON writes an object.
func (n Named) MarshalJSON() ([]byte, error) { return appendNamed(nil, n), nil }

// UnmarshalJSON reads an object of texts, numbers and arrays of them.
func (n *Named) UnmarshalJSON(data []byte) error {
	*n = nil
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(errors.New("values by name are no object"), err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return err
		}
		v := Values{Name: fmt.Sprint(name)}
		items, ok := value.([]any)
		if v.List = ok; !ok {
			items = []any{value}
		}
		for _, item := range items {
			switch item := item.(type) {
			case string:
				v.Values = append(v.Values, item)
			case json.Number:
				v.Number = true
				v.Values = append(v.Values, item.String())
			default:
				return fmt.Errorf("%q is %T, neither text nor number", v.Name, item)
			}
		}
		*n = append(*n, v)
	}
	return nil
}

func appendNamed(dst []byte, n Named) []byte {
	dst = append(dst, '{')
	for i := range n {
		v := &n[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = v.AppendJSON(append(jsontext.AppendString(dst, v.Name), ':'))
	}
	return append(dst, '}')
}

// AppendJSON appends the value, or an array of them with List, without the name.
func (v *Values) AppendJSON(dst []byte) []byte {
	switch {
	case v.List:
		return jsontext.AppendArray(dst, v.Values, v.append)
	case len(v.Values) == 0:
		return append(dst, `""`...)
	}
	return v.append(dst, v.Values[0])
}

func (v *Values) append(dst []byte, s string) []byte {
	if v.Number && s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s)) {
		return append(dst, s...)
	}
	return jsontext.AppendString(dst, s)
}

func (o *object) named(name string, n Named) {
	if len(n) > 0 {
		o.name(name)
		o.buf = appendNamed(o.buf, n)
	}
}

// raw appends a list of JSON values as they are. What is no JSON is left out: it would spoil the line.
func (o *object) raw(name string, values []json.RawMessage) {
	sep := byte('[')
	for _, v := range values {
		if !json.Valid(v) {
			continue
		}
		if sep == '[' {
			o.name(name)
		}
		o.buf = jsontext.AppendRaw(append(o.buf, sep), v)
		sep = ','
	}
	if sep == ',' {
		o.buf = append(o.buf, ']')
	}
}
