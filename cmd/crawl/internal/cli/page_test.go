package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A line of a template is a line of the text, whatever kind it is of, and foreign text makes no further ones.
func TestPage(t *testing.T) {
	p := NewPage(`
{{range .}}

title {{one .}}
.
|  kept  as it is, however long it may be: {{one .}}
  name	a text that is wrapped in its own column
{{if false}}
no line
{{end}}
  a line that is wrapped, and then indented further
{{end}}
{{twice (table)}}
`, 10, "  ", map[string]any{
		"twice": func(s string) string { return s + "\n" + s },
		"table": func() string { return AsIs("a  b\n  c\n") },
	})
	require.Equal(t, `title x `+"\uFFFD"+` | . y

  kept  as it is, however long it may be: x `+"\uFFFD"+` | . y
  name    a text that is wrapped in its own
          column
  a line that is wrapped, and then
    indented further
a  b
  c
a  b
  c
`, p.Text([]string{"x\n\t\n|\n.\ny"}, 44))
	require.Contains(t, p.Text([]string{"x"}, 0), "\n  a line that is wrapped, and then indented further\n", "zero wraps nothing")
	require.Contains(t, NewPage("begin\n{{.None}}", 0, "", nil).Text(struct{}{}, 80), "begin\ntemplate: page:2")
}
