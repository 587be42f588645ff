package sink

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const timeFormat = "2006-01-02T15:04:05.000Z"

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
		o.buf = appendString(o.buf, s)
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
	o.buf = append(appendTime(append(o.buf, '"'), t), '"')
}

// must is text for what is there even if empty.
func (o *object) must(name, s string) {
	o.name(name)
	o.buf = appendString(o.buf, s)
}

func (o *object) list(name string, values []string) {
	if len(values) > 0 {
		o.name(name)
		o.buf = appendArray(o.buf, values, appendString)
	}
}

func appendArray[T any](dst []byte, values []T, one func(dst []byte, v T) []byte) []byte {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, v)
	}
	return append(dst, ']')
}

// appendJSON appends r as one line. It is written by hand because records hold many strings, and reflection would be
// dearer than finding the links was.
func appendJSON(dst []byte, r *Record) []byte {
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
		o.buf = appendArray(o.buf, r.Alternates, appendAlternate)
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

func appendTimings(dst []byte, t *Timings) []byte {
	o := object{buf: append(dst, '{')}
	for i, d := range t.all() {
		if *d >= time.Microsecond {
			o.name(timingNames[i])
			o.buf = appendMillis(o.buf, *d)
		}
	}
	return append(o.buf, '}')
}

// appendMillis appends d in milliseconds, with as many of three decimals as it needs.
func appendMillis(dst []byte, d time.Duration) []byte {
	us := d.Microseconds()
	dst = strconv.AppendInt(dst, us/1000, 10)
	frac := us % 1000
	if frac == 0 {
		return dst
	}
	dst = append(dst, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
	return bytes.TrimRight(dst, "0")
}

// appendTime appends t to the millisecond. A year beyond four digits, which RFC 3339 cannot hold, makes it the zero
// time.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		t = time.Time{}
	}
	return t.AppendFormat(dst, timeFormat)
}

// appendString appends s as a JSON string. What is not UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0
	for i := plainWords(s); i < len(s); {
		if plain[s[i]] {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r < utf8.RuneSelf || r == utf8.RuneError && n == 1 || isUnsafe(r) {
			dst = appendEscape(append(dst, s[done:i]...), r)
			done = i + n
		}
		i += n
	}
	return append(append(dst, s[done:]...), '"')
}

// plainWords is how far s is of words of eight [plain] bytes, searched as in H. S. Warren, Hacker's Delight, section
// 6-1; a carry can make a word look not plain, never the other way.
func plainWords(s string) (i int) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		x := binary.LittleEndian.Uint64([]byte(s[i : i+8]))
		quote, slash, del := x^ones*'"', x^ones*'\\', x^ones*0x7f
		if (x|(x-ones*' ')|(quote-ones)|(slash-ones)|(del-ones))&tops != 0 {
			break
		}
	}
	return i
}

// plain are the bytes that stand in a JSON string as they are, by themselves. Most strings are URLs, which hold
// nothing else.
var plain = func() (t [256]bool) {
	for c := ' '; c <= '~'; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// isUnsafe reports characters that a reader would obey: C1 controls (U+009B begins a terminal escape), JavaScript's
// line separators, and changes of text direction.
func isUnsafe(r rune) bool {
	return r >= 0x80 && r <= 0x9f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// appendEscape appends r in its shortest escaped form. Every rune that gets here fits into four digits.
func appendEscape(dst []byte, r rune) []byte {
	if i := strings.IndexRune("\"\\\n\t\r", r); i >= 0 {
		return append(dst, '\\', `"\ntr`[i])
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// Named is values by their names, in order. In JSON it is an object: of a name with List the value is an array, of
// others a text; with Number the values are numbers.
type Named []Values

// Values is what goes by one name.
type Values struct {
	Name   string
	Values []string
	// List says that there may be more than one value. False: the first is the value.
	List bool
	// Number says that values are numbers as JSON writes them; one that is none is written as a text.
	Number bool
}

// MarshalJSON writes what a record has, for those who encode one by reflection.
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
		dst = append(appendString(dst, v.Name), ':')
		switch {
		case v.List:
			dst = appendArray(dst, v.Values, v.append)
		case len(v.Values) == 0:
			dst = append(dst, `""`...)
		default:
			dst = v.append(dst, v.Values[0])
		}
	}
	return append(dst, '}')
}

func (v *Values) append(dst []byte, s string) []byte {
	if v.Number && v.isNumber(s) {
		return append(dst, s...)
	}
	return appendString(dst, s)
}

// isNumber reports whether a value is a number as JSON writes it.
func (*Values) isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
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
		o.buf = appendRaw(append(o.buf, sep), v)
		sep = ','
	}
	if sep == ',' {
		o.buf = append(o.buf, ']')
	}
}

// appendRaw appends valid JSON. Line ends between its values become spaces, and within its strings the same
// characters are escaped as in other strings; outside of them, valid JSON has none.
func appendRaw(dst, v []byte) []byte {
	for i := 0; i < len(v); {
		r, n := utf8.DecodeRune(v[i:])
		switch {
		case r == '\n' || r == '\r':
			dst = append(dst, ' ')
		case r == utf8.RuneError && n == 1, isUnsafe(r), r == 0x7f:
			dst = appendEscape(dst, r)
		default:
			dst = append(dst, v[i:i+n]...)
		}
		i += n
	}
	return dst
}
