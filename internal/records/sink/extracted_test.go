package sink

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
