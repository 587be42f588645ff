// Package maintext is what the engine knows of the main text of pages. What finds it, package readable, needs libraries
// that not every program links: it registers itself in [Readers] when a program imports the public package maintext.
package maintext

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/backend"
	"github.com/treadlight/crawl/internal/web/dom"
)

// About is what an article says of itself, each text on one line. What it does not say is empty or zero.
type About struct {
	Title, Byline, Site, Lang, Excerpt string
	Published                          time.Time
}

// Article is the main text of a page. It must not be used concurrently.
type Article interface {
	About() About
	// Text is plain, a line per block.
	Text() string
	// Markdown is GitHub's dialect, beginning with the title as its heading. It is empty if there is no main text.
	Markdown() string
}

// Reader reads a tree, whose references resolve against a base.
type Reader func(d *dom.Document, base *url.URL) Article

// Readers has the one there is.
var Readers = backend.New[Reader]("the main text of pages, or Markdown,", "maintext")

// Title returns the title of a page, wherever it is given: its title element or, if that is empty, the heading that its
// Markdown begins with.
func Title(element, markdown string) string {
	if heading, _, _ := strings.Cut(markdown, "\n"); element == "" && strings.HasPrefix(heading, "# ") {
		return heading[2:]
	}
	return element
}

// File is an article as a file of Markdown: a head in YAML, which says where it is from, and the Markdown. It is empty if
// there is no main text. Title is the title element of the page.
func File(a Article, title, at string, fetched time.Time) string {
	text := a.Markdown()
	if text == "" {
		return ""
	}
	about := a.About()
	var b strings.Builder
	b.WriteString("---\n")
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, quote(value))
		}
	}
	line("title", Title(title, text))
	line("url", at)
	line("author", about.Byline)
	if !about.Published.IsZero() {
		fmt.Fprintf(&b, "date: %s\n", about.Published.Format(time.DateOnly))
	}
	line("site", about.Site)
	line("lang", about.Lang)
	line("description", about.Excerpt)
	fmt.Fprintf(&b, "fetched: %s\n---\n\n", fetched.UTC().Format(time.RFC3339))
	return b.String() + text
}

// quote is a text as YAML has it between double quotes, which is as JSON has it.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
