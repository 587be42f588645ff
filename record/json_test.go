package record_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/lab/recordtest"
	"github.com/treadlight/crawl/record"
)

func TestJSONGolden(t *testing.T) {
	require.Equal(t, `{"url":"https://example.com/a?b=c","kind":"page","method":"POST","id":"0123","status":200,"depth":2,"referrer":"https://example.com/",`+
		`"fetched_at":"2026-11-20T16:39:01.234Z","attempt":1,"redirect_to":"https://example.com/z","content_type":"text/html","charset":"utf-8",`+
		`"ignored_codings":"none","bytes":12345,"wire_bytes":2345,"truncated":true,"digest":"sha256:00ff","change":"changed","simhash":"00000000000000ff","duplicate":"near","duplicate_of":"http://a.test/","title":"Tee & \"Kaffee\" <b>","lang":"de",`+
		`"meta":{"description":"d","robots":"r","generator":"g","canonical":"https://example.com/c","og_title":"ot","og_type":"oy","og_image":"oi"},`+
		`"sitemap":{"format":"urlset","urls":3,"sitemaps":1,"extras":2,"dropped":4,"problems":5,"problem":"line 7: x","last_modified":"2026-01-02T03:04:05.000Z"},`+
		`"directives":["noindex","max-snippet:20"],"alternates":[{"href":"https://example.com/de","hreflang":"de","type":"text/html"},{"href":"https://example.com/x"}],`+
		`"next":"https://example.com/n","prev":"https://example.com/p",`+
		`"links":["https://example.com/1","https://example.com/?\\"],"resources":["https://example.com/i.png"],"nofollow_links":["https://example.com/1"],"text":"a\nb\tc",`+
		`"fields":{"f":1},"fields_error":"fe","properties":{"og:a":["b","c"]},"json_ld":[{"@type":"Article"}],"json_ld_invalid":2,"main_text":"main","markdown":"# Main\n",`+
		`"body":"<p>\u0000ü\u2028","body_base64":"/wBib2R5","rendered":{"why":"app_root","requests":3,"refused":1,"screenshot":"a.png","pdf":"a.pdf"},`+
		`"timings_ms":{"queue":1.5,"dns":0.001,"connect":20,"tls":3000,"first_byte":10.1},"remote_addr":"[::1]:443","proto":"HTTP/1.1",`+
		`"error":{"class":"decode","message":"gzip: invalid header"}}`+"\n", string(recordtest.Full().AppendJSON(nil)))

	require.Equal(t, `{"url":"","kind":"","depth":0,"fetched_at":"0001-01-01T00:00:00.000Z","attempt":0,"bytes":0,"wire_bytes":0}`+"\n",
		string((&record.Record{}).AppendJSON(nil)))
	require.Equal(t, `{"url":"","kind":"","depth":0,"fetched_at":"0001-01-01T00:00:00.000Z","attempt":0,"bytes":0,"wire_bytes":0}`+"\n",
		string((&record.Record{FetchedAt: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}).AppendJSON(nil)), "a year that RFC 3339 cannot hold")
	require.Contains(t, string((&record.Record{FetchedAt: time.Date(2026, 1, 1, 1, 0, 0, 999999999, time.FixedZone("", 3600))}).AppendJSON(nil)), `"2026-01-01T00:00:00.999Z"`)
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
// behind it. Their meanings are in the comments.
func schema(prefix string, typ reflect.Type, docs map[string]string) (all []field) {
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		name = prefix + name
		one := field{Name: name, Unit: f.Tag.Get("unit"), Always: options == "", Meaning: docs[typ.Name()+"."+f.Name], Type: jsonTypes[f.Type.Kind()]}
		var inner reflect.Type
		switch f.Type {
		case reflect.TypeFor[time.Time]():
			one.Type, one.Unit = "string", "RFC 3339, UTC"
		case reflect.TypeFor[time.Duration]():
			one.Type, one.Unit, one.Always = "number", "ms", false
		case reflect.TypeFor[record.Named]():
			one.Type = "object"
		case reflect.TypeFor[[]byte]():
			one.Type = "string"
		case reflect.TypeFor[[]string]():
			one.Type = "array of strings"
		case reflect.TypeFor[record.Meta](), reflect.TypeFor[record.Timings]():
			inner = f.Type
		case reflect.TypeFor[*record.Sitemap](), reflect.TypeFor[[]record.Alternate](), reflect.TypeFor[*record.Error](), reflect.TypeFor[*record.Rendered]():
			inner = f.Type.Elem()
		}
		if all = append(all, one); inner != nil {
			all = append(all, schema(name+".", inner, docs)...)
		}
	}
	return all
}

// comments are those of the fields of structs, in lower case at the beginning as in a table.
func comments(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	file, err := parser.ParseFile(token.NewFileSet(), "record.go", nil, parser.ParseComments)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		typ, isType := n.(*ast.TypeSpec)
		if !isType {
			return true
		}
		if s, isStruct := typ.Type.(*ast.StructType); isStruct {
			for _, f := range s.Fields.List {
				text := strings.TrimSuffix(strings.Join(strings.Fields(f.Doc.Text()), " "), ".")
				require.NotEmpty(t, text, "%s.%s has no comment", typ.Name.Name, f.Names[0].Name)
				if first, _, _ := strings.Cut(text, " "); first != strings.ToUpper(first) && first != "JSON-LD" && first != "Open" && first != "HTTP/1.1" {
					text = strings.ToLower(text[:1]) + text[1:]
				}
				all[typ.Name.Name+"."+f.Names[0].Name] = text
			}
		}
		return false
	})
	return all
}

// docs/reference/records.md has the schema of records.
func TestDocsHaveEveryField(t *testing.T) {
	var table strings.Builder
	table.WriteString("| field | type | unit | there | meaning |\n|---|---|---|---|---|\n")
	for _, f := range schema("", reflect.TypeFor[record.Record](), comments(t)) {
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

// TestSchemaIsTrue holds what the schema says against what is written.
func TestSchemaIsTrue(t *testing.T) {
	everything, nothing := decode(t, recordtest.Full()), decode(t, &record.Record{Error: &record.Error{}, Alternates: []record.Alternate{{}}, Sitemap: &record.Sitemap{}, Rendered: &record.Rendered{}})
	for _, f := range schema("", reflect.TypeFor[record.Record](), comments(t)) {
		if got, ok := lookup(everything, f.Name); ok {
			require.Equal(t, f.Type, jsonType(got), f.Name)
		} else {
			require.Contains(t, []string{"timings_ms.permit_wait", "timings_ms.body", "timings_ms.total", "timings_ms.render"}, f.Name)
		}
		if f.Name == "error" || f.Name == "alternates" || f.Name == "sitemap" || f.Name == "rendered" {
			continue // given, so that its own fields can be looked for
		}
		_, ok := lookup(nothing, f.Name)
		require.Equal(t, f.Always, ok, f.Name)
	}
}

func decode(t *testing.T, r *record.Record) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(r.AppendJSON(nil), &m))
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

// FuzzJSONL: what is written reads back as what package json would have written, and durations as they were, to the
// microsecond.
func FuzzJSONL(f *testing.F) {
	recordtest.Seeds(f)
	f.Fuzz(func(t *testing.T, a, b, c string, n int64, flags uint8) {
		r := recordtest.Fuzzed(a, b, c, n, flags)
		line := r.AppendJSON(nil)
		recordtest.CheckLine(t, line)
		byReflection, err := json.Marshal(r)
		require.NoError(t, err)
		var got, want record.Record
		require.NoError(t, json.Unmarshal(line, &got), "%s", line)
		require.NoError(t, json.Unmarshal(byReflection, &want))
		from, to := reflect.ValueOf(r.Timings), reflect.ValueOf(&want.Timings).Elem()
		for i := range from.NumField() {
			to.Field(i).SetInt(int64(max(0, time.Duration(from.Field(i).Int()).Truncate(time.Microsecond))))
		}
		require.Equal(t, want, got, "%s", line)
	})
}

func TestTimingsRefuseNonsense(t *testing.T) {
	var x record.Timings
	require.Error(t, json.Unmarshal([]byte(`{"queue":"x"}`), &x))
	require.NoError(t, json.Unmarshal([]byte(`{"queue":0.001,"unknown":3}`), &x))
	require.Equal(t, record.Timings{Queue: time.Microsecond}, x)
}

func TestNamed(t *testing.T) {
	for text, n := range map[string]record.Named{
		`{}`:                               nil,
		`{"price":12.50}`:                  {{Name: "price", Values: []string{"12.50"}, Number: true}},
		`{"z":"a","a":["1","2"],"n":[-3]}`: {{Name: "z", Values: []string{"a"}}, {Name: "a", Values: []string{"1", "2"}, List: true}, {Name: "n", Values: []string{"-3"}, List: true, Number: true}},
		`{"a\n\"":"\u001b\u202e"}`:         {{Name: "a\n\"", Values: []string{"\x1b\u202e"}}},
		`{"empty":[]}`:                     {{Name: "empty", List: true}},
	} {
		got, err := n.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		var back record.Named
		require.NoError(t, json.Unmarshal([]byte(text), &back))
		require.Equal(t, n, back, text)
	}
	// What is no number is a text, and never breaks the line.
	for text, n := range map[string]record.Named{
		`{"a":["x","","0x1","1e","-","1 2"]}`: {{Name: "a", Values: []string{"x", "", "0x1", "1e", "-", "1 2"}, List: true, Number: true}},
		`{"a":"1","b":""}`:                    {{Name: "a", Values: []string{"1", "2"}}, {Name: "b"}},
	} {
		got, err := n.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	for _, bad := range []string{`[]`, `{"a":{}}`, `{"a":[[]]}`, `{"a":true}`, `{"a":null}`} {
		var n record.Named
		require.Error(t, json.Unmarshal([]byte(bad), &n), bad)
	}
}

// blocksOf is the JSON of a record that has JSON-LD blocks, without what every record has.
func blocksOf(values ...[]byte) string {
	var r record.Record
	for _, v := range values {
		r.JSONLD = append(r.JSONLD, v)
	}
	line := strings.TrimSuffix(string(r.AppendJSON(nil)), "\n")
	return strings.TrimPrefix(line, strings.TrimSuffix(string(new(record.Record).AppendJSON(nil)), "}\n"))
}

func TestRawJSON(t *testing.T) {
	write := func(values ...string) string {
		var raw [][]byte
		for _, v := range values {
			raw = append(raw, []byte(v))
		}
		return blocksOf(raw...)
	}
	require.Equal(t, "}", write())
	require.Equal(t, "}", write("{", ""))
	require.Equal(t, `,"json_ld":[{"a":1},[2]]}`, write(`{"a":1}`, `nonsense`, `[2]`))
	require.Equal(t, `,"json_ld":[{"a": "b"}]}`, write("{\"a\":\n\"b\"}"))
	require.Equal(t, `,"json_ld":["ü\u009b\u2028\u202e\u007f\ufffd\"\\"]}`, write("\"ü\u009b\u2028\u202e\x7f\xff\\\"\\\\\""))
}

// FuzzRaw: whatever JSON a page has, the line is one line of JSON with the same meaning.
func FuzzRaw(f *testing.F) {
	f.Add([]byte("{\"a\":\r\n[1e5,\"\u2028\\u2028\"]}"))
	f.Add([]byte("\"\xff\x7f\""))
	f.Add([]byte("1E700")) // beyond a float64
	f.Fuzz(func(t *testing.T, raw []byte) {
		line := blocksOf(raw)
		require.NotContains(t, line, "\n")
		if !json.Valid(raw) {
			require.Equal(t, "}", line)
			return
		}
		line = "{" + strings.TrimPrefix(line, ",")
		require.True(t, json.Valid([]byte(line)), "%q", line)
		var got struct {
			X []any `json:"json_ld"`
		}
		var want any
		for text, to := range map[string]any{string(raw): &want, line: &got} {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber() // what is written is the page's number, whatever a reader can hold
			require.NoError(t, d.Decode(to))
		}
		require.Equal(t, []any{want}, got.X)
	})
}
