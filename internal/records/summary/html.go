package summary

import (
	_ "embed" // for the template
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
)

//go:embed report.html
var reportPage string

// WriteHTML writes one page that needs nothing else: no script, no other file, no network. Text from servers is
// escaped; only http and https URLs become links, and the page forbids browsers to load anything.
func (s *Summary) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"count": humanize.Comma, "size": Size,
		"ms":      func(v float64) string { return humanize.Comma(int64(math.Round(v))) },
		"seconds": func(v float64) string { return fmt.Sprintf("%.1f", v) },
		"rate":    func(v float64) string { return fmt.Sprintf("%.2f", v) },
		"when":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"plain":   Clean, "meaning": Meaning, "share": share, "bytes": func(v float64) string { return Size(int64(v)) },
		"web":  func(u string) bool { return strings.HasPrefix(u, "http://") || strings.HasPrefix(u, "https://") },
		"list": func(title string, l List) titled { return titled{title, l} },
	}).Parse(reportPage)
	if err != nil {
		return fmt.Errorf("the report's template: %w", err)
	}
	return t.Execute(w, s)
}

type titled struct {
	Title string
	List  List
}

// share returns n as a percentage of another number, for the width of a bar.
func share(n, of int64) string {
	if of == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f", 100*float64(n)/float64(of))
}

// Clean makes foreign text safe for a terminal: it replaces every character that is not printable, such as those that
// begin an escape sequence or change the direction of writing, by U+FFFD. Line feeds stay.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || strconv.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Size formats a number of bytes in a readable unit.
func Size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, units := float64(n)/1024, "KMGTPE"
	for v >= 1024 && len(units) > 1 {
		v, units = v/1024, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", v, units[0])
}

// Meaning describes a status in words; empty for one without a description.
func Meaning(status string) string {
	words := map[string]string{
		"none": "no answer, or not asked for", "200": "OK", "204": "no content", "206": "a part",
		"301": "moved for good", "302": "found elsewhere", "303": "see another", "304": "not modified", "307": "moved for now", "308": "moved for good",
		"400": "bad request", "401": "wants a login", "403": "forbidden", "404": "not found", "405": "method not allowed", "406": "no such form",
		"408": "too slow a request", "410": "gone", "414": "URL too long", "429": "too many requests", "451": "withheld for legal reasons",
		"500": "server error", "501": "not implemented", "502": "bad gateway", "503": "unavailable", "504": "gateway too slow",
	}
	return words[status]
}
