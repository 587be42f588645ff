package document_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/document"
)

func TestYAMLAndJSONMeanTheSame(t *testing.T) {
	y, err := document.Parse("a.yaml", []byte("a: 'x'\nb:\n  - 1\n  - {c: ~}\na: true\n"))
	require.NoError(t, err)
	require.Equal(t, document.Node{Kind: document.Map, Line: 1, Keys: []document.Entry{
		{Key: "a", Line: 1, Value: document.Node{Kind: document.String, Line: 1, Text: "x"}},
		{Key: "b", Line: 2, Value: document.Node{Kind: document.List, Line: 3, Items: []document.Node{
			{Kind: document.Scalar, Line: 3, Text: "1"},
			{Kind: document.Map, Line: 4, Keys: []document.Entry{{Key: "c", Line: 4, Value: document.Node{Line: 4}}}},
		}}},
		{Key: "a", Line: 5, Value: document.Node{Kind: document.Scalar, Line: 5, Text: "true"}},
	}}, y)

	j, err := document.Parse("", []byte("\ufeff{\"a\": \"x\",\n\"b\":\n[1,\n{\"c\": null}],\n\"a\": true}"))
	require.NoError(t, err)
	y.Keys[1].Value.Items[0].Kind, y.Keys[2].Value.Kind = document.Number, document.Bool // which JSON says
	require.Equal(t, y, j, "equal keys stay, and so do lines")

	for _, name := range []string{"a.json", "a.yaml", "a"} {
		for _, text := range []string{"", " \n\n", "\ufeff", "null"} {
			n, err := document.Parse(name, []byte(text))
			require.NoError(t, err, "%s: %q", name, text)
			require.Equal(t, document.Null, n.Kind)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.json", "{\n\"a\": 1,\n}", "is not JSON: invalid character '}' looking for beginning of object key string [line 3]"},
		{"a.json", "{\n\"a\": 1\n", "is not JSON: it ends in the middle of a value; close what is open [line 3]"},
		{"a.json", "[1,\n2", "is not JSON: it ends in the middle of a value; close what is open [line 2]"},
		{"a.json", "{\n\"a\": 1} {", "goes on after its end; remove what follows [line 2]"},
		{"a.json", "{\"a\":" + strings.Repeat("[", 99), "is nested more than 32 levels deep [line 1]"},
		{"a.json", "{\"\xff\": 1}", "is not valid UTF-8; save it in that encoding [line 1]"},
		{"a.yaml", "a: &x [1]\nb: *x", "has the alias *x; write the value itself, aliases are not followed [line 2]"},
		{"a.yaml", "a: !!int 3", "has the tag !!int; remove it, types follow from the setting [line 1]"},
		{"a.yaml", "? [a]\n: b", "has a list, group or alias where the name of a setting belongs [line 1]"},
		{"a.yaml", "a: 1\n---\na: 2", "has a second document; keep one [line 2]"},
		{"a.yaml", "a:\n\tb: 1", "is not YAML: found character that cannot start any token; indent with spaces, this line has a tab [line 2]"},
		{"a.yaml", "a: {b: 1", "is not YAML: did not find expected ',' or '}' [line 1]"},
		{"a.yaml", "a: 1\nb: m\xfcller", "is not valid UTF-8; save it in that encoding [line 2]"},
		{"a.yaml", "\xff\xfed\x00e\x00", "is UTF-16; save it as UTF-8 [line 1]"},
		{"a.yaml", "a: " + strings.Repeat("[", 50) + strings.Repeat("]", 50), "is nested more than 32 levels deep [line 1]"},
	} {
		_, err := document.Parse(c.name, []byte(c.text))
		require.EqualError(t, err, "the document "+c.want, "%q", c.text)
	}
}

func TestUnique(t *testing.T) {
	n, err := document.ParseYAML([]byte("a: 1\nb: 2\na: 3\na: 4"))
	require.NoError(t, err)
	var again []int
	keys := n.Unique(func(first, again2 document.Entry) { again = append(again, first.Line, again2.Line) })
	require.Equal(t, []int{1, 3, 1, 4}, again)
	require.Len(t, keys, 2)
	require.Equal(t, "1", keys[0].Value.Text)
}

func TestValues(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "Yes": true, "on": true, "1": true, "false": false, "no": false, "OFF": false, "0": false} {
		v, err := document.ParseBool(text, "")
		require.NoError(t, err, text)
		require.Equal(t, want, v, text)
	}
	_, err := document.ParseBool("maybe", "true or false")
	require.EqualError(t, err, `"maybe" is neither; give true or false`)

	n, err := document.ParseInt("010_000", "")
	require.NoError(t, err)
	require.EqualValues(t, 10_000, n, "decimal, whatever it begins with")
	for text, want := range map[string]string{
		"1.5": "1.5 is not a whole number; give one", "0x10": `"0x10" is not a whole number; give one`, "_1": "_1 is not a whole number; give one",
		"99999999999999999999": "99999999999999999999 is out of range; give one",
	} {
		_, err := document.ParseInt(text, "one")
		require.EqualError(t, err, want)
	}
	x, err := document.ParseFloat("-0", "")
	require.NoError(t, err)
	require.False(t, x < 0 || 1/x < 0, "without a sign")
	for _, text := range []string{"nan", "0x1p4", "", "1,5"} {
		_, err := document.ParseFloat(text, "one")
		require.EqualError(t, err, document.Quote(text)+" is not a number; give one")
	}
	for _, text := range []string{"1e999", "inf", "-Infinity"} {
		_, err = document.ParseFloat(text, "one")
		require.EqualError(t, err, document.Quote(text)+" is out of range; give one")
	}
}

func TestNamesInMessages(t *testing.T) {
	require.Equal(t, "max_delay_ms", document.Snake("MaxDelayMs"))
	require.Equal(t, "a.b[2]", document.Item(document.Join(document.Join("", "a"), "b"), 2))
	require.Equal(t, `"a\nb"`, document.QuoteKey("a\nb"))
	require.Equal(t, "a-b", document.QuoteKey("a-b"))
	require.Equal(t, strings.Repeat("k", 60)+"...", document.Clip(strings.Repeat("k", 61)))
}

// FuzzParse wants an end without a panic, and every line inside of the document.
func FuzzParse(f *testing.F) {
	f.Add("a: [1, {b: c}]")
	f.Add("{\"a\": [1, {\"b\": null}]}")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		lines := 2 // as YAML has them; nothing at the end stands on a line of its own
		for _, r := range text {
			if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) {
				lines++
			}
		}
		for _, name := range []string{"a.yaml", "a.json"} {
			n, err := document.Parse(name, []byte(text))
			if err == nil {
				inside(t, n, lines)
			}
		}
	})
}

func inside(t *testing.T, n document.Node, lines int) {
	t.Helper()
	require.GreaterOrEqual(t, n.Line, 0)
	require.LessOrEqual(t, n.Line, lines)
	for _, e := range n.Keys {
		inside(t, e.Value, lines)
	}
	for _, item := range n.Items {
		inside(t, item, lines)
	}
}

func TestProblems(t *testing.T) {
	first, second := &document.SyntaxError{Line: 1, Text: "is odd"}, &document.SyntaxError{Line: 2, Text: "is even"}
	err := error(document.Problems[*document.SyntaxError]{first, second})
	require.EqualError(t, err, first.Error()+"\n"+second.Error())
	require.ErrorIs(t, err, second)
}
