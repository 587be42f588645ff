package sink

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// csvColumns are the columns in the order of appendCSV. They carry the names of the
// JSON fields where they hold the same; of lists there is only the length.
const csvColumns = "url,kind,status,depth,referrer,fetched_at,attempt,redirect_to,content_type,charset,bytes,wire_bytes," +
	"truncated,digest,change,duplicate,duplicate_of,title,lang,description,directives,links,resources,total_ms,remote_addr,error_class,error_message,id\n"

// fieldColumn is what the column of a field is called: no other column begins like that.
const fieldColumn = "field_"

// csvHeader is the header line: csvColumns, and behind them one for each of the user's fields.
func csvHeader(fields []string) []byte {
	line := []byte(strings.TrimSuffix(csvColumns, "\n"))
	for _, name := range fields {
		line = appendCell(append(line, ','), fieldColumn+name)
	}
	return append(line, '\n')
}

// appendFields is appendCSV with a cell behind it for each field. What the page has not is an
// empty one; a field of all values is an array of JSON, also with one of them, and any other is
// the value itself.
func appendFields(dst []byte, r *Record, fields []string) []byte {
	dst = appendCSV(dst, r)
	dst = dst[:len(dst)-1]
	for _, name := range fields {
		dst = append(dst, ',')
		for i := range r.Fields {
			if v := &r.Fields[i]; v.Name == name {
				dst = v.appendCell(dst)
				break
			}
		}
	}
	return append(dst, '\n')
}

// appendCell appends a field as a cell.
func (v *Values) appendCell(dst []byte) []byte {
	switch {
	case v.List:
		return appendCell(dst, string(v.appendList(nil)))
	case len(v.Values) == 0:
		return dst
	case v.Number && v.isNumber(v.Values[0]): // with its sign it is no formula
		return append(dst, v.Values[0]...)
	}
	return appendCell(dst, v.Values[0])
}

// row appends the cells of one line of CSV, RFC 4180 with line feeds.
type row struct{ buf []byte }

// text appends a cell that a server had its hand in.
func (c *row) text(s string) { c.buf = append(appendCell(c.buf, s), ',') }

// number leaves the cell empty if there is nothing to say.
func (c *row) number(n int64, always bool) {
	if n != 0 || always {
		c.buf = strconv.AppendInt(c.buf, n, 10)
	}
	c.buf = append(c.buf, ',')
}

// appendCSV appends r as one line with the columns of csvColumns. Text and links are
// left out: a spreadsheet's cell holds 32 KiB, and a list has no place in one.
func appendCSV(dst []byte, r *Record) []byte {
	c := row{buf: dst}
	c.text(r.URL)
	c.text(r.Kind)
	c.number(int64(r.Status), false)
	c.number(int64(r.Depth), true)
	c.text(r.Referrer)
	c.buf = append(appendTime(c.buf, r.FetchedAt), ',')
	c.number(int64(r.Attempt), true)
	c.text(r.RedirectTo)
	c.text(r.ContentType)
	c.text(r.Charset)
	c.number(r.Bytes, true)
	c.number(r.WireBytes, true)
	c.buf = append(strconv.AppendBool(c.buf, r.Truncated), ',')
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
	c.buf = append(appendMillis(c.buf, max(0, r.Timings.Total)), ',')
	c.text(r.RemoteAddr)
	e := r.Error
	if e == nil {
		e = &Error{}
	}
	c.text(e.Class)
	c.text(e.Message)
	return append(append(c.buf, r.ID...), '\n')
}

// appendCell appends a text. Line ends and other controls become spaces, so that a
// record is a line; a text that could be a formula gets an apostrophe in front, which
// spreadsheets take as "this is text".
func appendCell(dst []byte, s string) []byte {
	s = oneLine(s)
	if isFormula(s) {
		s = "'" + s
	}
	if strings.Contains(s, ";") {
		s = withoutFormulas(s)
	}
	if !strings.ContainsAny(s, `",`) && s == strings.TrimSpace(s) {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}

// withoutFormulas puts an apostrophe behind each semicolon that a formula follows. In half of
// Europe spreadsheets take semicolons for what separates cells, and then no quotes around
// what we take for a cell would help.
func withoutFormulas(s string) string {
	first, rest, more := strings.Cut(s, ";")
	var b strings.Builder
	b.WriteString(first)
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ";")
		b.WriteByte(';')
		if isFormula(strings.TrimLeft(part, "\" ")) {
			b.WriteByte('\'')
		}
		b.WriteString(part)
	}
	return b.String()
}

// isFormula goes by the first character, as spreadsheets do. They know the full-width
// forms as well.
func isFormula(s string) bool {
	for _, prefix := range [...]string{"=", "+", "-", "@", "＝", "＋", "－", "＠"} {
		if strings.HasPrefix(strings.TrimLeft(s, " "), prefix) {
			return true
		}
	}
	return false
}

// oneLine makes s valid UTF-8 without controls.
func oneLine(s string) string {
	clean := true // as nearly all are: then there is nothing to copy
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || isTricky(r) {
			return ' '
		}
		return r
	}, s)
}

// appendURL appends the URL of a page that was fetched whole or in part, and nothing
// for anything else.
func appendURL(dst []byte, r *Record) []byte {
	if r.Kind != "" && r.Kind != "page" || r.Error != nil || outcome.Of(r.Status, nil) != outcome.OK {
		return dst
	}
	return append(append(dst, oneLine(r.URL)...), '\n')
}
