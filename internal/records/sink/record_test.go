package sink

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// full is a record with every field set.
func full() *Record {
	return &Record{
		URL: "https://example.com/a?b=c", Kind: "page", Method: "POST", ID: "0123", Status: 200, Depth: 2, Referrer: "https://example.com/",
		FetchedAt: time.Date(2026, 11, 20, 16, 39, 1, 234e6, time.UTC), Attempt: 1, RedirectTo: "https://example.com/z",
		ContentType: "text/html", Charset: "utf-8", IgnoredCodings: "none", Bytes: 12345, WireBytes: 2345, Truncated: true, Digest: "sha256:00ff", SimHash: "00000000000000ff", Duplicate: "near", DuplicateOf: "http://a.test/", Change: "changed",
		Title: `Tee & "Kaffee" <b>`, Lang: "de",
		Meta:       Meta{Description: "d", Robots: "r", Generator: "g", Canonical: "https://example.com/c", OGTitle: "ot", OGType: "oy", OGImage: "oi"},
		Sitemap:    &Sitemap{"urlset", 3, 1, 2, 4, 5, "line 7: x", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Directives: []string{"noindex", "max-snippet:20"}, Next: "https://example.com/n", Prev: "https://example.com/p",
		Alternates:    []Alternate{{Href: "https://example.com/de", HrefLang: "de", Type: "text/html"}, {Href: "https://example.com/x"}},
		NofollowLinks: []string{"https://example.com/1"},
		Links:         []string{"https://example.com/1", `https://example.com/?\`}, Resources: []string{"https://example.com/i.png"}, Text: "a\nb\tc",
		Fields: Named{{Name: "f", Values: []string{"1"}, Number: true}}, FieldsError: "fe", Properties: Named{{Name: "og:a", Values: []string{"b", "c"}, List: true}},
		JSONLD: []json.RawMessage{json.RawMessage(`{"@type":"Article"}`)}, InvalidJSONLD: 2, MainText: "main",
		Body: "<p>\x00ü\u2028", BodyBase64: []byte("\xff\x00body"),
		Timings:    Timings{1500 * time.Microsecond, 1, time.Microsecond, 20 * time.Millisecond, 3 * time.Second, 10100 * time.Microsecond, 0, -1},
		RemoteAddr: "[::1]:443", Proto: "HTTP/1.1", Error: &Error{"decode", "gzip: invalid header"},
	}
}

func TestJSONGolden(t *testing.T) {
	require.Equal(t, `{"url":"https://example.com/a?b=c","kind":"page","method":"POST","id":"0123","status":200,"depth":2,"referrer":"https://example.com/",`+
		`"fetched_at":"2026-11-20T16:39:01.234Z","attempt":1,"redirect_to":"https://example.com/z","content_type":"text/html","charset":"utf-8",`+
		`"ignored_codings":"none","bytes":12345,"wire_bytes":2345,"truncated":true,"digest":"sha256:00ff","change":"changed","simhash":"00000000000000ff","duplicate":"near","duplicate_of":"http://a.test/","title":"Tee & \"Kaffee\" <b>","lang":"de",`+
		`"meta":{"description":"d","robots":"r","generator":"g","canonical":"https://example.com/c","og_title":"ot","og_type":"oy","og_image":"oi"},`+
		`"sitemap":{"format":"urlset","urls":3,"sitemaps":1,"extras":2,"dropped":4,"problems":5,"problem":"line 7: x","last_modified":"2026-01-02T03:04:05.000Z"},`+
		`"directives":["noindex","max-snippet:20"],"alternates":[{"href":"https://example.com/de","hreflang":"de","type":"text/html"},{"href":"https://example.com/x"}],`+
		`"next":"https://example.com/n","prev":"https://example.com/p",`+
		`"links":["https://example.com/1","https://example.com/?\\"],"resources":["https://example.com/i.png"],"nofollow_links":["https://example.com/1"],"text":"a\nb\tc",`+
		`"fields":{"f":1},"fields_error":"fe","properties":{"og:a":["b","c"]},"json_ld":[{"@type":"Article"}],"json_ld_invalid":2,"main_text":"main",`+
		`"body":"<p>\u0000ü\u2028","body_base64":"/wBib2R5",`+
		`"timings_ms":{"queue":1.5,"dns":0.001,"connect":20,"tls":3000,"first_byte":10.1},"remote_addr":"[::1]:443","proto":"HTTP/1.1",`+
		`"error":{"class":"decode","message":"gzip: invalid header"}}`+"\n", string(appendJSON(nil, full())))

	require.Equal(t, `{"url":"","kind":"","depth":0,"fetched_at":"0001-01-01T00:00:00.000Z","attempt":0,"bytes":0,"wire_bytes":0}`+"\n",
		string(appendJSON(nil, &Record{})))
	require.Equal(t, `{"url":"","kind":"","depth":0,"fetched_at":"0001-01-01T00:00:00.000Z","attempt":0,"bytes":0,"wire_bytes":0}`+"\n",
		string(appendJSON(nil, &Record{FetchedAt: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)})), "a year that RFC 3339 cannot hold")
	require.Contains(t, string(appendJSON(nil, &Record{FetchedAt: time.Date(2026, 1, 1, 1, 0, 0, 999999999, time.FixedZone("", 3600))})), `"2026-01-01T00:00:00.999Z"`)
}

func TestStringsAreSafe(t *testing.T) {
	for in, want := range map[string]string{
		"":                          `""`,
		`a"b\c/`:                    `"a\"b\\c/"`,
		"a\nb\rc\td":                `"a\nb\rc\td"`,
		"\x00\x1b[31m\x7f":          `"\u0000\u001b[31m\u007f"`,
		"\u009b31m":                 `"\u009b31m"`,
		"a\u2028b\u2029":            `"a\u2028b\u2029"`,
		"\u202etxt.exe":             `"\u202etxt.exe"`,
		"ü\u00a0日本😀\ufeff":          "\"ü\u00a0日本😀\ufeff\"",
		"\xff\xfea\xc3":             `"\ufffd\ufffda\ufffd"`,
		"<script>&'</script>":       `"<script>&'</script>"`,
		"\xed\xa0\x80":              `"\ufffd\ufffd\ufffd"`, // a surrogate is not UTF-8
		"\ufffd is a character too": "\"\ufffd is a character too\"",
	} {
		require.Equal(t, want, string(appendString(nil, in)), "%q", in)
	}
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 999: "0", time.Microsecond: "0.001", 120 * time.Microsecond: "0.12", time.Millisecond: "1",
		1100 * time.Microsecond: "1.1", 1010 * time.Microsecond: "1.01", time.Hour: "3600000", 12345678 * time.Microsecond: "12345.678",
	} {
		require.Equal(t, want, string(appendMillis(nil, d)), d)
	}
}

// field describes one field of a JSON line.
type field struct {
	Name    string // with the name of the object in front: "error.class"
	Type    string // as JSON has it
	Unit    string // empty if it has none
	Always  bool   // there even if empty
	Meaning string
}

// jsonTypes are the types of JSON for those of Go.
var jsonTypes = map[reflect.Kind]string{
	reflect.String: "string", reflect.Int: "number", reflect.Int64: "number", reflect.Bool: "boolean",
	reflect.Struct: "object", reflect.Pointer: "object", reflect.Slice: "array of objects",
}

// schema is every field of an object, in the order in which they are written, each with those of the objects in it
// behind it. Their meanings are in the tags.
func schema(prefix string, typ reflect.Type) (all []field) {
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		name = prefix + name
		one := field{Name: name, Unit: f.Tag.Get("unit"), Always: options == "", Meaning: f.Tag.Get("doc"), Type: jsonTypes[f.Type.Kind()]}
		var inner reflect.Type
		switch f.Type {
		case reflect.TypeFor[time.Time]():
			one.Type, one.Unit = "string", "RFC 3339, UTC"
		case reflect.TypeFor[time.Duration]():
			one.Type, one.Unit, one.Always = "number", "ms", false
		case reflect.TypeFor[Named]():
			one.Type = "object"
		case reflect.TypeFor[[]byte]():
			one.Type = "string"
		case reflect.TypeFor[[]string]():
			one.Type = "array of strings"
		case reflect.TypeFor[Meta](), reflect.TypeFor[Timings]():
			inner = f.Type
		case reflect.TypeFor[*Sitemap](), reflect.TypeFor[[]Alternate](), reflect.TypeFor[*Error]():
			inner = f.Type.Elem()
		}
		if all = append(all, one); inner != nil {
			all = append(all, schema(name+".", inner)...)
		}
	}
	return all
}

// docs/reference/records.md has the schema of records.
func TestDocsHaveEveryField(t *testing.T) {
	var table strings.Builder
	table.WriteString("| field | type | unit | there | meaning |\n|---|---|---|---|---|\n")
	for _, f := range schema("", reflect.TypeFor[Record]()) {
		there := ""
		if f.Always {
			there = "always"
		}
		require.NotEmpty(t, f.Meaning, f.Name)
		require.NotEmpty(t, f.Type, f.Name)
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Type, f.Unit, there, strings.ReplaceAll(f.Meaning, "|", `\|`))
	}
	docpage.Check(t, "docs/reference/records.md", "fields", table.String())
}

// docs/reference/records.md has a row for each format.
func TestDocsHaveEveryFormat(t *testing.T) {
	table := "| `--format` | ending of `-o` | what is written |\n|---|---|---|\n"
	for _, spec := range Formats() {
		require.NotEmpty(t, spec.Help, spec.Format)
		table += fmt.Sprintf("| `%s` | `%s` | %s |\n", spec.Format, strings.Join(spec.Endings, "` `"), spec.Help)
	}
	docpage.Check(t, "docs/reference/records.md", "formats", table)
}

// TestSchemaIsTrue holds what the schema says against what is written.
func TestSchemaIsTrue(t *testing.T) {
	everything, nothing := decode(t, full()), decode(t, &Record{Error: &Error{}, Alternates: []Alternate{{}}, Sitemap: &Sitemap{}})
	for _, f := range schema("", reflect.TypeFor[Record]()) {
		if got, ok := lookup(everything, f.Name); ok {
			require.Equal(t, f.Type, jsonType(got), f.Name)
		} else {
			require.Contains(t, []string{"timings_ms.permit_wait", "timings_ms.body", "timings_ms.total"}, f.Name)
		}
		if f.Name == "error" || f.Name == "alternates" || f.Name == "sitemap" {
			continue // given, so that its own fields can be looked for
		}
		_, ok := lookup(nothing, f.Name)
		require.Equal(t, f.Always, ok, f.Name)
	}
}

func decode(t *testing.T, r *Record) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(appendJSON(nil, r), &m))
	return m
}

func lookup(m map[string]any, name string) (any, bool) {
	outer, inner, nested := strings.Cut(name, ".")
	v, ok := m[outer]
	if !nested || !ok {
		return v, ok
	}
	if list, ok := v.([]any); ok {
		v = list[0]
	}
	return lookup(v.(map[string]any), inner)
}

func jsonType(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		if jsonType(v[0]) == "object" {
			return "array of objects"
		}
		return "array of strings"
	}
	return "object"
}

func checkLine(t *testing.T, line []byte) {
	t.Helper()
	if !utf8.Valid(line) || bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
		t.Fatalf("%q is not one line of UTF-8", line)
	}
	for _, r := range string(line[:len(line)-1]) {
		if r < ' ' || r == 0x7f || isUnsafe(r) {
			t.Fatalf("%q holds %U", line, r)
		}
	}
}

// fuzzed makes a record of what a fuzzer chose.
func fuzzed(a, b, c string, n int64, flags uint8) *Record {
	r := &Record{
		URL: a, Kind: b, Status: int(n % 600), Depth: int(n), Referrer: c, FetchedAt: time.UnixMilli(n % 4e12).UTC(), Attempt: int(flags),
		RedirectTo: b, ContentType: c, Charset: a, IgnoredCodings: c, Bytes: n, WireBytes: -n, Truncated: flags&1 != 0, Digest: b, Change: c, Title: a + c, Lang: b,
		Text: c + b + a, RemoteAddr: b, Proto: c, Timings: Timings{Queue: time.Duration(n), TLS: time.Duration(n / 3), Total: -time.Duration(n)},
	}
	r.Timings.Queue %= 1e15 // float64 holds microseconds of 285 years, and no more
	r.Timings.TLS %= 1e15
	r.Timings.Total %= 1e15
	if flags&2 != 0 {
		r.Body, r.BodyBase64 = b, []byte(a+c)
		r.Meta, r.Links = Meta{Description: a, OGTitle: c, Robots: b}, []string{a, b, c}
	}
	if flags&8 != 0 {
		r.Directives, r.NofollowLinks, r.Next, r.Prev = []string{a, c}, []string{b}, c, a
		r.Alternates = []Alternate{{Href: a, HrefLang: b, Type: c}, {Href: b}}
	}
	if flags&4 != 0 {
		r.Error, r.Resources = &Error{a, c}, []string{c}
	}
	return r
}

func seedRecords(f *testing.F) {
	f.Add("https://example.com/", "page", "=cmd|' /C calc'!A0", int64(1234567890123), uint8(7))
	f.Add("\xff\x00\u2028\u009b", "a\"b\\c\n", "ü,\r\n\t", int64(-5), uint8(2))
	f.Add("", " ", ",", int64(0), uint8(0))
}

// FuzzJSONL: what is written reads back as what package json would have written, and durations as they were, to the
// microsecond.
func FuzzJSONL(f *testing.F) {
	seedRecords(f)
	f.Fuzz(func(t *testing.T, a, b, c string, n int64, flags uint8) {
		r := fuzzed(a, b, c, n, flags)
		line := appendJSON([]byte(nil), r)
		checkLine(t, line)
		byReflection, err := json.Marshal(r)
		require.NoError(t, err)
		var got, want Record
		require.NoError(t, json.Unmarshal(line, &got), "%s", line)
		require.NoError(t, json.Unmarshal(byReflection, &want))
		for i, d := range r.Timings.all() {
			*want.Timings.all()[i] = max(0, d.Truncate(time.Microsecond))
		}
		require.Equal(t, want, got, "%s", line)
	})
}

// FuzzCSV: every record is one line with the header's columns, none a formula, and the text is there.
func FuzzCSV(f *testing.F) {
	seedRecords(f)
	f.Fuzz(func(t *testing.T, a, b, c string, n int64, flags uint8) {
		r := fuzzed(a, b, c, n, flags)
		for _, separator := range []byte{',', '\t'} {
			checkTable(t, table{separator: separator}, r, map[string]string{"url": a, "lang": b, "referrer": c})
		}
	})
}

// checkTable writes a record and reads it as a spreadsheet does.
func checkTable(t *testing.T, as table, r *Record, want map[string]string) {
	t.Helper()
	text := as.append(as.header(), r)
	line := text[len(as.header()):]
	checkLine(t, bytes.ReplaceAll(line, []byte{'\t'}, []byte{','}))
	in := csv.NewReader(bytes.NewReader(text))
	in.Comma = rune(as.separator)
	rows, err := in.ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) != len(rows[0]) {
		t.Fatalf("%s\n%v, %v", text, rows, err)
	}
	for _, cell := range strings.Split(string(line), ";")[1:] {
		if isFormula(strings.TrimLeft(cell, `" `)) {
			t.Fatalf("behind a semicolon stands %q", cell)
		}
	}
	for i, cell := range rows[1] {
		name := rows[0][i]
		if isFormula(cell) && name != "depth" && name != "status" && name != "bytes" && name != "wire_bytes" {
			t.Fatalf("%s is %q", name, cell)
		}
		if want := want[name]; want != "" && strings.ReplaceAll(cell, "'", "") != strings.ReplaceAll(oneLine(want), "'", "") {
			t.Fatalf("%s is %q, want %q", name, cell, want)
		}
	}
}

func TestCSVGolden(t *testing.T) {
	r := full()
	r.Title = "=1+1, \"x\""
	r.Error.Message = "two\nlines"
	require.Equal(t, `https://example.com/a?b=c,page,200,2,https://example.com/,2026-11-20T16:39:01.234Z,1,https://example.com/z,text/html,utf-8,12345,2345,`+
		`true,sha256:00ff,changed,near,http://a.test/,"'=1+1, ""x""",de,d,noindex; max-snippet:20,2,1,0,[::1]:443,decode,two lines,0123`+"\n", string(csvTable.append(nil, r)))
	require.Equal(t, ",,,0,,0001-01-01T00:00:00.000Z,0,,,,0,0,false,,,,,,,,,0,0,0,,,,\n", string(csvTable.append(nil, &Record{})))
	for _, formula := range []string{"=a", "+a", "-a", "@a", "\t=a", " =a", "\r\n+a", "＝a"} {
		require.True(t, strings.HasPrefix(strings.Trim(string(csvTable.appendCell(nil, formula)), `"`), "'"), "%q", formula)
		// Where semicolons separate cells.
		cell := strings.Trim(string(csvTable.appendCell(nil, "a;"+formula+";b")), `"`)
		require.True(t, strings.HasPrefix(cell, "a;'"), "%q: %q", formula, cell)
	}
	require.Equal(t, "a-b", string(csvTable.appendCell(nil, "a-b")))
}

func TestURLsAreSuccessfulPages(t *testing.T) {
	tests := []struct {
		r    Record
		want string
	}{
		{Record{URL: "u", Kind: "page", Status: 200}, "u\n"},
		{Record{URL: "u", Status: 204}, "u\n"},
		{Record{URL: "u", Kind: "page", Status: 301}, ""},
		{Record{URL: "u", Kind: "page", Status: 404}, ""},
		{Record{URL: "u", Kind: "page"}, ""},
		{Record{URL: "u", Kind: "robots", Status: 200}, ""},
		{Record{URL: "u", Kind: "page", Status: 200, Error: &Error{}}, ""},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, string(appendURL(nil, &tt.r)), "%+v", tt.r)
	}
}

func TestTimingsRefuseNonsense(t *testing.T) {
	var x Timings
	require.Error(t, json.Unmarshal([]byte(`{"queue":"x"}`), &x))
	require.NoError(t, json.Unmarshal([]byte(`{"queue":0.001,"unknown":3}`), &x))
	require.Equal(t, Timings{Queue: time.Microsecond}, x)
}

func TestNamed(t *testing.T) {
	for text, n := range map[string]Named{
		`{}`:                               nil,
		`{"price":12.50}`:                  {{Name: "price", Values: []string{"12.50"}, Number: true}},
		`{"z":"a","a":["1","2"],"n":[-3]}`: {{Name: "z", Values: []string{"a"}}, {Name: "a", Values: []string{"1", "2"}, List: true}, {Name: "n", Values: []string{"-3"}, List: true, Number: true}},
		`{"a\n\"":"\u001b\u202e"}`:         {{Name: "a\n\"", Values: []string{"\x1b\u202e"}}},
		`{"empty":[]}`:                     {{Name: "empty", List: true}},
	} {
		got, err := json.Marshal(n)
		require.NoError(t, err)
		require.Equal(t, text, string(appendNamed(nil, n)))
		require.JSONEq(t, text, string(got))
		var back Named
		require.NoError(t, json.Unmarshal([]byte(text), &back))
		require.Equal(t, n, back, text)
	}
	// What is no number is a text, and never breaks the line.
	require.Equal(t, `{"a":["x","","0x1","1e","-","1 2"]}`,
		string(appendNamed(nil, Named{{Name: "a", Values: []string{"x", "", "0x1", "1e", "-", "1 2"}, List: true, Number: true}})))
	require.Equal(t, `{"a":"1","b":""}`, string(appendNamed(nil, Named{{Name: "a", Values: []string{"1", "2"}}, {Name: "b"}})))
	for _, bad := range []string{`[]`, `{"a":{}}`, `{"a":[[]]}`, `{"a":true}`, `{"a":null}`} {
		var n Named
		require.Error(t, json.Unmarshal([]byte(bad), &n), bad)
	}
}

func TestRawJSON(t *testing.T) {
	write := func(values ...string) string {
		o := object{}
		var raw []json.RawMessage
		for _, v := range values {
			raw = append(raw, json.RawMessage(v))
		}
		o.raw("x", raw)
		return string(o.buf)
	}
	require.Empty(t, write())
	require.Empty(t, write("{", ""))
	require.Equal(t, `"x":[{"a":1},[2]]`, write(`{"a":1}`, `nonsense`, `[2]`))
	require.Equal(t, `"x":[{"a": "b"}]`, write("{\"a\":\n\"b\"}"))
	require.Equal(t, `"x":["ü\u009b\u2028\u202e\u007f\ufffd\"\\"]`, write("\"ü\u009b\u2028\u202e\x7f\xff\\\"\\\\\""))
}

// FuzzRaw: whatever JSON a page has, the line is one line of JSON with the same meaning.
func FuzzRaw(f *testing.F) {
	f.Add([]byte("{\"a\":\r\n[1e5,\"\u2028\\u2028\"]}"))
	f.Add([]byte("\"\xff\x7f\""))
	f.Add([]byte("1E700")) // beyond a float64
	f.Fuzz(func(t *testing.T, raw []byte) {
		o := object{buf: []byte{'{'}}
		o.raw("x", []json.RawMessage{raw})
		line := append(o.buf, '}')
		require.True(t, json.Valid(line), "%q", line)
		require.NotContains(t, string(line), "\n")
		if !json.Valid(raw) {
			require.Equal(t, "{}", string(line))
			return
		}
		var got struct{ X []any }
		var want any
		for text, to := range map[string]any{string(raw): &want, string(line): &got} {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber() // what is written is the page's number, whatever a reader can hold
			require.NoError(t, d.Decode(to))
		}
		require.Equal(t, []any{want}, got.X)
	})
}

// Strings are looked at a word at a time first: whatever byte stands wherever in one, what is written is JSON that
// says the same, and holds nothing that a terminal would obey.
func TestEveryByteAtEveryPlaceOfAWord(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			s := []byte(strings.Repeat("a", 17))
			s[at] = byte(c)
			out := appendString(nil, string(s))
			var back string
			require.NoError(t, json.Unmarshal(out, &back), "%q", s)
			require.Equal(t, strings.ToValidUTF8(string(s), "\ufffd"), back)
			for _, b := range out {
				require.False(t, b < ' ' || b == 0x7f, "%q", out)
			}
			require.Equal(t, plain[c], string(out) == `"`+string(s)+`"`, "%q: %q", s, out)
		}
	}
}

func TestID(t *testing.T) {
	// printf 'j\0page\0http://a.test/' | sha256sum
	require.Equal(t, "98942e506a1d9a44a78c802517f573e9", ID("j", "page", "http://a.test/"), "it is a promise to whoever has stored it")
	seen := make(map[string]bool)
	for _, parts := range [][3]string{{"j", "page", "http://a.test/"}, {"jp", "age", "http://a.test/"}, {"j", "pageh", "ttp://a.test/"}, {"j", "sitemap", "http://a.test/"}, {"", "page", "http://a.test/"}} {
		id := ID(parts[0], parts[1], parts[2])
		require.Regexp(t, "^[0-9a-f]{32}$", id)
		require.False(t, seen[id])
		seen[id] = true
	}
}
