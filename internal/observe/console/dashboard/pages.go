// Package dashboard turns the state of a crawl into pages for a browser: the overview, one
// host, and the form that asks for the token.
//
// [Pages] renders an [Overview], a [Host] or the login that package console has filled in. Pages are whole without
// script. With it they ask for themselves once a second and put in place what is marked data-live. All texts of a
// page may be those of a stranger: they reach it through html/template alone, and [Policy] has a browser run and load
// nothing but the two files here. All may be used concurrently.
package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// Policy is the Content-Security-Policy of a page: its own style, script, images and
// requests, forms that lead back here, and nothing else. Nothing in a page is inline.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

//go:embed templates/*.html assets/*
var files embed.FS

// Pages renders. Make it by [New]; it never changes after that.
type Pages struct{ all *template.Template }

// New reads the templates, which are part of the program; an error is a fault of it.
func New() (*Pages, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"count":  func(n any) string { return Whole(reflect.ValueOf(n).Int()) },
		"number": Number, "since": since, "clock": clockTime, "stamp": stamp, "lines": lines,
		"hostOf": hostOf, "hostPath": HostPath, "kind": func(e ratelimit.Event) Kind { return KindOf(&e) }, "backward": backward,
		"words": func(word fmt.Stringer) string { return strings.ReplaceAll(word.String(), "_", " ") },
	}).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return &Pages{t}, nil
}

// Overview renders the first page.
func (p *Pages) Overview(v Overview) ([]byte, error) { return p.render("overview.html", v) }

// Host renders the page of one host.
func (p *Pages) Host(v Host) ([]byte, error) { return p.render("host.html", v) }

// Login renders the form that asks for the token, with why the last try failed, if it did.
func (p *Pages) Login(problem string) ([]byte, error) { return p.render("login.html", problem) }

// render writes into memory first: half a page is worse than none.
func (p *Pages) render(name string, v any) ([]byte, error) {
	var b bytes.Buffer
	if err := p.all.ExecuteTemplate(&b, name, v); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return b.Bytes(), nil
}

// Asset is a file that pages load, and its media type. It is not ok if there is none of that name.
func Asset(name string) (content []byte, media string, ok bool) {
	if name != path.Base(name) {
		return nil, "", false
	}
	content, err := fs.ReadFile(files, "assets/"+name)
	if err != nil {
		return nil, "", false
	}
	return content, mediaTypes[name[strings.LastIndexByte(name, '.')+1:]], true
}

var mediaTypes = map[string]string{
	"css": "text/css; charset=utf-8",
	"js":  "text/javascript; charset=utf-8",
	"svg": "image/svg+xml",
}

func backward(events []ratelimit.Event) []ratelimit.Event {
	events = slices.Clone(events)
	slices.Reverse(events)
	return events
}
