package chunk

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const head = "---\ntitle: \"A \\\"title\\\"\"\nurl: \"https://a.test/\"\n---\n\n"

func checked(t *testing.T, file string, tokens int) []Chunk {
	t.Helper()
	chunks := Split(file, "https://a.test/", tokens)
	var b strings.Builder
	at := Body(file)
	for _, c := range chunks {
		require.Equal(t, at, c.Start)
		require.Greater(t, c.End, c.Start)
		require.Equal(t, file[c.Start:c.End], c.Text[c.Repeats:])
		require.Equal(t, Tokens(c.Text), c.Tokens)
		b.WriteString(c.Text[c.Repeats:])
		at = c.End
	}
	require.Equal(t, file[Body(file):], b.String())
	return chunks
}

func TestSplit(t *testing.T) {
	para := strings.Repeat("Some words of a sentence. ", 8) + "\n\n" // 52 tokens
	row := "| cell | another cell of a table |\n"
	table := "| a | b |\n|---|---|\n"
	for _, tc := range []struct {
		name, body string
		tokens     int
		want       []string // the headings of each chunk
	}{
		{"nothing", "", 100, nil},
		{"one", "# T\n\nText.\n", 100, []string{"T"}},
		{"by section", "# T\n\n## A\n\n" + para + "## B\n\n" + para, 80, []string{"T/A", "T/B"}},
		{"small peers become one", "# T\n\n## A\n\nx\n\n## B\n\ny\n", 80, []string{"T"}},
		{"no peers", "# T\n\n## A\n\n### B\n\n" + para + "# U\n\n### C\n\n" + para, 200, []string{"T/A/B", "U/C"}},
		{"long section", "# T\n\n" + para + para + para, 120, []string{"T", "T"}},
		{"long line", "# T\n\n" + strings.Repeat("word ", 400), 100, []string{"T", "T", "T", "T", "T", "T"}},
		{"a heading in code is none", "# T\n\n```\n# no\n\n# no\n```\n", 100, []string{"T"}},
		{"table", "# T\n\n" + table + strings.Repeat(row, 20), 64, []string{"T", "T", "T", "T"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, c := range checked(t, head+tc.body, tc.tokens) {
				require.LessOrEqual(t, c.Tokens, tc.tokens)
				require.Equal(t, `A "title"`, c.Title)
				got = append(got, strings.Join(c.Headings, "/"))
				if tc.name == "table" && c.Repeats > 0 {
					require.True(t, strings.HasPrefix(c.Text, table+"| cell"), c.Text)
				}
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestHeadingsArePlain(t *testing.T) {
	for heading, want := range map[string]string{
		"[`Foo`](a(b).html \"t\") **bar**": "Foo bar", `get\_x \[1\]`: "get_x [1]", "A&lt;B&gt;": "A<B>", "`f(*args)`": "f(*args)", "a [b] c": "a [b] c",
	} {
		require.Equal(t, want, Split("# "+heading+"\n", "https://a.test/", 100)[0].Headings[0])
	}
}

func TestLines(t *testing.T) {
	chunks := Split(head+"# <T>\n", "u", 100)
	lines := AppendLines([]byte("x\n"), chunks)
	require.Contains(t, string(lines), `"text":"# <T>\n"`)
	var c Chunk
	require.NoError(t, json.Unmarshal(lines[2:], &c))
	require.Equal(t, chunks[0], c)
}

// FuzzSplit: chunks put together are the file behind its head, and no valid character is cut, whatever the file is.
func FuzzSplit(f *testing.F) {
	f.Add(head+"# A\n\ntext\n\n## B\n\n| a |\n|---|\n| b |\n\n```\ncode\n```\n", 16)
	f.Add("~~~\n\xff# A\n\n\n", 20)
	f.Add(strings.Repeat("日本語。", 100), 30)
	f.Fuzz(func(t *testing.T, file string, tokens int) {
		for _, c := range checked(t, file, tokens) {
			require.Equal(t, utf8.ValidString(file), utf8.ValidString(file) && utf8.ValidString(c.Text))
		}
	})
}
