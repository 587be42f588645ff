package sink

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/document/jsontext"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/record"
)

// csvColumns are the columns, in the order of table.append. A column has the name of the JSON field whose value it
// holds; for a list it holds the length.
const csvColumns = "url,kind,status,depth,referrer,fetched_at,attempt,redirect_to,content_type,charset,bytes,wire_bytes," +
	"truncated,digest,change,duplicate,duplicate_of,title,lang,description,directives,links,resources,total_ms,remote_addr,error_class,error_message,id"

// fieldColumn is the beginning of the column name of a user's field. No other column begins so.
const fieldColumn = "field_"

// table writes lines of a table as in RFC 4180, but with line feeds and with any separator.
type table struct {
	separator byte
	fields    []string // the user's fields; each has a column
}

func (t table) header() []byte {
	names := strings.Split(csvColumns, ",")
	for _, name := range t.fields {
		names = append(names, fieldColumn+name)
	}
	return t.names(names)
}

func (t table) names(columns []string) (line []byte) {
	for i, name := range columns {
		if i > 0 {
			line = append(line, t.separator)
		}
		line = t.appendCell(line, name)
	}
	return append(line, '\n')
}

// appendField appends a page's value of a field: nothing if there is none, a JSON array if the field is a list, and
// otherwise the value itself.
func (t table) appendField(dst []byte, v *record.Values) []byte {
	switch {
	case v.List:
		return t.appendCell(dst, string(v.AppendJSON(nil)))
	case len(v.Values) == 0:
		return dst
	case v.Number && v.AppendJSON(nil)[0] != '"': // a number is no formula, even with a sign
		return append(dst, v.Values[0]...)
	}
	return t.appendCell(dst, v.Values[0])
}

type row struct {
	table
	buf []byte
}

func (c *row) end() { c.buf = append(c.buf, c.separator) }

// text appends a cell whose content a server may have influenced.
func (c *row) text(s string) {
	c.buf = c.appendCell(c.buf, s)
	c.end()
}

// number appends a number. Zero gives an empty cell unless always is set.
func (c *row) number(n int64, always bool) {
	if n != 0 || always {
		c.buf = strconv.AppendInt(c.buf, n, 10)
	}
	c.end()
}

// append appends r as one line with the columns of the header. Text and links are left out: a cell of a spreadsheet
// holds 32 KiB, and cannot hold a list.
func (t table) append(dst []byte, r *record.Record) []byte {
	c := row{table: t, buf: dst}
	c.text(r.URL)
	c.text(r.Kind)
	c.number(int64(r.Status), false)
	c.number(int64(r.Depth), true)
	c.text(r.Referrer)
	c.buf = jsontext.AppendTime(c.buf, r.FetchedAt)
	c.end()
	c.number(int64(r.Attempt), true)
	c.text(r.RedirectTo)
	c.text(r.ContentType)
	c.text(r.Charset)
	c.number(r.Bytes, true)
	c.number(r.WireBytes, true)
	c.buf = strconv.AppendBool(c.buf, r.Truncated)
	c.end()
	c.text(r.Digest)
	c.text(r.Change)
	c.text(r.Duplicate)
	c.text(r.DuplicateOf)
	c.text(r.Title)
	c.text(r.Lang)
	c.text(r.Meta.Description)
	c.text(strings.Join(r.Directives, "; "))
	c.number(int64(len(r.Links)), true)
	c.number(int64(len(r.Resources)), true)
	c.buf = jsontext.AppendMillis(c.buf, max(0, r.Timings.Total))
	c.end()
	c.text(r.RemoteAddr)
	e := r.Error
	e = cmp.Or(e, &record.Error{})
	c.text(e.Class)
	c.text(e.Message)
	c.buf = append(c.buf, r.ID...)
	for _, name := range t.fields {
		c.end()
		if i := slices.IndexFunc(r.Fields, func(v record.Values) bool { return v.Name == name }); i >= 0 {
			c.buf = t.appendField(c.buf, &r.Fields[i])
		}
	}
	return append(c.buf, '\n')
}

// appendCell appends a text. Line breaks and other control characters become spaces, so that a record is one line. A
// text that could be a formula gets an apostrophe in front, by which spreadsheets recognize text.
func (t table) appendCell(dst []byte, s string) []byte {
	s = oneLine(s)
	if isFormula(s) {
		s = "'" + s
	}
	if strings.Contains(s, ";") {
		s = formulaBehind().ReplaceAllString(s, ";'$1")
	}
	if strings.IndexByte(s, '"') < 0 && strings.IndexByte(s, t.separator) < 0 && s == strings.TrimSpace(s) {
		return append(dst, s...)
	}
	return append(append(append(dst, '"'), strings.ReplaceAll(s, `"`, `""`)...), '"')
}

// formulaBehind matches a semicolon that a formula follows, and the beginning of the formula, before which an apostrophe
// is to be. In half of Europe spreadsheets use semicolons to separate cells, and then quotes around our cells would not
// help.
var formulaBehind = lazy.Regexp(`;([" ]*[` + formulaSigns + `])`)

// formulaSigns begin what a spreadsheet would take for a formula. Spreadsheets also recognize the full-width forms.
const formulaSigns = "=+@＝＋－＠-"

func isFormula(s string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, " "))
	return strings.ContainsRune(formulaSigns, first)
}

// oneLine makes s valid UTF-8 without control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || jsontext.IsUnsafe(r) {
			return ' '
		}
		return r
	}, s)
}

// appendURL appends the URL of a page that was fetched, completely or in part, and nothing for other records.
func appendURL(dst []byte, r *record.Record) []byte {
	if r.Kind != "" && r.Kind != "page" || r.Error != nil || outcome.Of(r.Status, nil) != outcome.OK {
		return dst
	}
	return append(append(dst, oneLine(r.URL)...), '\n')
}
