// Package scripts tells by the HTML of a page whether it has to be rendered: whether its scripts put there what people
// see. [Look] finds the signs in one pass, without a tree, and runs nothing.
package scripts

import (
	"bytes"
	"slices"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/lazy"
)

// Sign is why a page is taken for empty without scripts, as records have it. The empty Sign is none.
type Sign string

// The signs, the strongest first.
const (
	Root     Sign = "app_root"    // the element that a framework fills, and little text
	Template Sign = "template"    // braces or a cloak that a framework of the page has to replace
	Noscript Sign = "noscript"    // a hint to turn scripts on, and little text
	Bare     Sign = "little_text" // scripts, little text and hardly a link
	Controls Sign = "controls"    // buttons that only a script can answer; asked for apart
)

// View is what was seen of a page.
type View struct {
	Sign  Sign
	Text  int // bytes of text that people see, without space
	Links int // elements a with href

	scripts, controls               int
	root, template, braces, advises bool
}

const (
	maxBytes  = 1 << 20 // of a page that are looked at
	littleRun = 200     // bytes of text: a heading and a sentence
	shortPage = 800     // and of one that says it needs scripts
	fewLinks  = 3
)

var (
	// roots are ids of elements that frameworks fill, by what their starters make.
	roots = []string{
		"root", "app", "__next", "__nuxt", "___gatsby", "svelte", "react-root", "app-root", "q-app", "main-app", "mount", "application", "ember-app",
	}
	advice = lazy.Regexp(`(?i)(java|type)?scripts?\b`)
	// code are the types of scripts that are run; others are data.
	code = lazy.Regexp(`(?i)^(|module|(text|application)/(x-)?(java|ecma)script\b.*)$`)
)

// Look looks at a page. With controls, buttons count for a sign as well.
func Look(page []byte, controls bool) View {
	page = page[:min(len(page), maxBytes)]
	var v View
	s := scan{View: &v, z: html.NewTokenizer(bytes.NewReader(page))}
	for s.next() {
	}
	v.Sign = v.judge(controls)
	return v
}

// Empty reports whether a page has a sign that does not come of controls. It reads no further than it has to: pages
// with text at their beginning are told at once.
func Empty(page []byte) bool {
	page = page[:min(len(page), maxBytes)]
	var v View
	s := scan{View: &v, z: html.NewTokenizer(bytes.NewReader(page))}
	for s.next() && (v.Text < shortPage || v.template) {
	}
	return v.judge(false) != ""
}

func (v *View) judge(controls bool) Sign {
	switch {
	case v.scripts == 0 && (!controls || v.controls == 0): // nothing that could run
	case v.root && v.Text < littleRun:
		return Root
	case v.template && v.braces:
		return Template
	case v.advises && v.Text < shortPage && v.Links < 10*fewLinks:
		return Noscript
	case v.scripts > 0 && v.Text < littleRun && v.Links < fewLinks:
		return Bare
	case controls && v.controls > 0:
		return Controls
	}
	return ""
}

// scan is one pass over a page.
type scan struct {
	*View
	z      *html.Tokenizer
	hidden atom.Atom // the element whose text nobody sees; zero: none
	forms  int
}

func (s *scan) next() bool {
	switch s.z.Next() {
	case html.ErrorToken:
		return false
	case html.TextToken:
		s.text(s.z.Text())
	case html.StartTagToken, html.SelfClosingTagToken:
		name, more := s.z.TagName()
		s.start(name, more)
	case html.EndTagToken:
		name, _ := s.z.TagName()
		switch tag := atom.Lookup(name); {
		case tag == s.hidden:
			s.hidden = 0
		case tag == atom.Form && s.forms > 0:
			s.forms--
		}
	}
	return true
}

func (s *scan) text(text []byte) {
	switch s.hidden {
	case 0:
		for _, b := range text {
			if b > ' ' {
				s.Text++
			}
		}
		s.braces = s.braces || bytes.Contains(text, []byte("{{"))
	case atom.Noscript:
		s.advises = s.advises || advice().Match(text)
	}
}

// start takes in the start of an element.
func (s *scan) start(name []byte, more bool) {
	tag := atom.Lookup(name)
	// Frameworks name their roots as elements too: app-root, my-app.
	s.root = s.root || bytes.HasSuffix(name, []byte("-root")) || bytes.HasSuffix(name, []byte("-app"))
	if s.hidden == 0 && (tag == atom.Script || tag == atom.Style || tag == atom.Noscript || tag == atom.Template || tag == atom.Title) {
		s.hidden = tag
	}
	if tag == atom.Form {
		s.forms++
	}
	var kind []byte
	var answers bool
	for more {
		var key, value []byte
		key, value, more = s.z.TagAttr()
		switch {
		case string(key) == "id":
			s.root = s.root || slices.Contains(roots, string(value))
		case string(key) == "href" && tag == atom.A:
			s.Links++
		case string(key) == "type":
			kind = value
		case string(key) == "ng-app", string(key) == "data-ng-app", string(key) == "v-cloak", string(key) == "x-cloak":
			s.template = true
		case string(key) == "onclick":
			answers = true
		}
		s.braces = s.braces || bytes.Contains(value, []byte("{{"))
	}
	switch {
	case tag == atom.Script && code().Match(kind):
		s.scripts++
	case answers, tag == atom.Button && s.forms == 0, tag == atom.Input && s.forms == 0 && bytes.EqualFold(kind, []byte("button")):
		s.controls++
	}
}
