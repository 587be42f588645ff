package cli

import (
	"maps"
	"math"
	"reflect"
	"strings"
	"sync"
	"text/template"
)

// Page makes a text for people of a value, by a template. A line of the template is a line of the text, but
//
//   - an empty line is left out, so that actions can have lines of their own; a line with a full stop alone is empty in
//     the text
//   - a line that begins with | is written as it is, without the |, as are URLs and commands that are to be copied
//   - a line with a tab has a name before it and a text behind it, which begins in the column of all such texts
//
// Lines of the last and of other kinds are wrapped. Foreign text must pass through one, a function of [Functions], since
// a line feed in it would begin another line.
type Page struct {
	parse   func() *template.Template
	margin  int
	further string
}

// NewPage returns a page, whose template is read when it is first used. Texts behind tabs begin in the column margin,
// and further is what further lines of any other line begin with, behind its own indent. Functions may be nil, or have
// some beside [Functions].
func NewPage(text string, margin int, further string, functions template.FuncMap) *Page {
	return &Page{margin: margin, further: further, parse: sync.OnceValue(func() *template.Template {
		return template.Must(template.New("page").Funcs(Functions()).Funcs(functions).Parse(text))
	})}
}

// Text returns the text for a value on a screen of that width; zero means that nothing is wrapped. If the template fails,
// which is a mistake in the program, the text ends with the error.
func (p *Page) Text(value any, columns int) string {
	if columns == 0 {
		columns = math.MaxInt
	}
	var raw, b strings.Builder
	err := p.parse().Execute(&raw, value)
	for line := range strings.SplitSeq(raw.String(), "\n") {
		name, text, row := strings.Cut(line, "\t")
		switch whole, asIs := strings.CutPrefix(line, "|"); {
		case asIs:
			b.WriteString(whole + "\n")
		case line == ".":
			b.WriteString("\n")
		case row:
			Hanging(&b, name, text, p.margin, columns)
		case strings.TrimSpace(line) != "":
			Indent(&b, line, IndentOf(line)+p.further, columns)
		}
	}
	if err != nil {
		b.WriteString(err.Error() + "\n")
	}
	return b.String()
}

// AsIs returns a table or another text of whole lines for a page, which neither wraps nor drops any of them.
func AsIs(text string) string {
	return "|" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n|")
}

// Functions returns the functions of all templates of the program. Those of numbers take integers of any type.
func Functions() template.FuncMap { return maps.Clone(functions) }

var functions = template.FuncMap{
	"count":   func(n any) string { return Count(integer(n)) },
	"plural":  func(n any, noun string) string { return Plural(integer(n), noun) },
	"size":    func(n any) string { return Size(integer(n)) },
	"seconds": Seconds,
	"one":     func(s string) string { return OneLine(Clean(s)) },
	"word":    ShellWord,
	"join":    strings.Join,
	"minus":   func(a, b any) int64 { return integer(a) - integer(b) },
}

func integer(n any) int64 { return reflect.ValueOf(n).Int() }
