// Package forms fills in the forms of pages, and makes the requests that a browser sends for them (HTML standard, section
// 4.10.22).
//
// A control belongs to a form by its form attribute or by being in it. Disabled controls send nothing, nor do those of a
// disabled fieldset except in its legend. Checkboxes and radio buttons send a value if they are checked. A select that
// allows one choice and has none sends its first option. The first submit button that is not disabled is pressed: it
// sends its name, and its formaction, formmethod and formenctype override those of the form. The text is sent in the
// encoding that accept-charset names, or else in that of the page, with CR LF for line ends. A hidden field called
// _charset_ sends the name of the encoding.
package forms

import (
	"bytes"
	"cmp"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
)

const maxControls = 2000 // of a form; more are left out

// Form is a form of a page.
type Form struct {
	node     *html.Node
	url      canonical.URL // the URL of the page
	base     canonical.URL
	charset  string
	controls []*html.Node
}

// Field is a name and a value that a form sends.
type Field struct{ Name, Value string }

// Submission is the request that a browser would send.
type Submission struct {
	Method string // "GET" or "POST"
	// URL is the target. For a GET it does not contain the fields.
	URL         canonical.URL
	ContentType string // of Body
	Body        []byte // the body of a POST; nil for a GET
	Fields      []Field
}

// Page is a page in which forms are searched.
type Page struct {
	Document  *dom.Document
	URL, Base canonical.URL
	Charset   string // of the page; empty means UTF-8
}

// All returns the forms of a page, in its order.
func (p *Page) All() (all []*Form) {
	var open *html.Node // a form in a table, which the parser leaves empty
	owners := map[*html.Node]*Form{}
	byID := map[string]*Form{}
	for n := range p.Document.Root.Descendants() {
		if n.DataAtom == atom.Form && n.Type == html.ElementNode && p.Document.Budget.Spend(1) {
			f := &Form{node: n, url: p.URL, base: p.Base, charset: cmp.Or(p.Charset, "utf-8")}
			all, owners[n] = append(all, f), f
			if id, _ := dom.Attr(n, "id"); id != "" && byID[id] == nil {
				byID[id] = f
			}
		}
	}
	for n := range p.Document.Root.Descendants() {
		if n.Type != html.ElementNode || !p.Document.Budget.Spend(1) {
			continue
		}
		switch n.DataAtom {
		case atom.Form:
			open = nil
			if n.FirstChild == nil && within(n, atom.Table, atom.Tbody, atom.Thead, atom.Tfoot, atom.Tr) != nil {
				open = n
			}
		case atom.Input, atom.Button, atom.Select, atom.Textarea:
			f := owners[within(n, atom.Form)]
			if id, ok := dom.Attr(n, "form"); ok {
				f = byID[id]
			} else if f == nil {
				f = owners[open]
			}
			if f != nil && len(f.controls) < maxControls {
				f.controls = append(f.controls, n)
			}
		}
	}
	return all
}

// within returns the nearest ancestor of n that is one of these elements, or nil.
func within(n *html.Node, of ...atom.Atom) *html.Node {
	for p := n.Parent; p != nil; p = p.Parent {
		if slices.Contains(of, p.DataAtom) {
			return p
		}
	}
	return nil
}

// Is reports whether the form is that element or contains it.
func (f *Form) Is(n *html.Node) bool {
	return f.node == n || slices.Contains(f.controls, n) || within(n, atom.Form) == f.node
}

// Names returns the names of the controls that can be filled in, without duplicates.
func (f *Form) Names() (all []string) {
	for _, c := range f.controls {
		if name, _ := dom.Attr(c, "name"); name != "" && !disabled(c) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Login returns the names of the controls for user and password if the form is a login form: it has one password, and a
// text field, where a field for a mail address is preferred. Otherwise both are empty.
func (f *Form) Login() (user, password string) {
	passwords := 0
	var typed, mail string
	for _, c := range f.controls {
		name, _ := dom.Attr(c, "name")
		if name == "" || disabled(c) || c.DataAtom != atom.Input {
			continue
		}
		switch kind(c) {
		case "password":
			if passwords++; passwords == 1 {
				password = name
			}
		case "email":
			mail = cmp.Or(mail, name)
		case "text", "tel", "":
			typed = cmp.Or(typed, name)
		}
	}
	if passwords != 1 || typed+mail == "" {
		return "", ""
	}
	return cmp.Or(mail, typed), password
}

// kind returns the type of an input or button, in lower case. Unknown types count as text.
func kind(n *html.Node) string {
	t, _ := dom.Attr(n, "type")
	t = strings.ToLower(strings.TrimSpace(t))
	if n.DataAtom == atom.Button {
		if t != "reset" && t != "button" {
			return "submit"
		}
		return t
	}
	switch t {
	case "hidden", "password", "email", "tel", "search", "url", "checkbox", "radio", "file", "submit", "image", "reset", "button", "number", "date", "range", "color":
		return t
	}
	return "text"
}

// disabled reports whether a control sends nothing.
func disabled(n *html.Node) bool {
	if _, is := dom.Attr(n, "disabled"); is {
		return true
	}
	for child, p := n, n.Parent; p != nil; child, p = p, p.Parent {
		if p.DataAtom == atom.Datalist {
			return true
		}
		if _, is := dom.Attr(p, "disabled"); is && p.DataAtom == atom.Fieldset && child != firstLegend(p) {
			return true
		}
	}
	return false
}

func firstLegend(fieldset *html.Node) *html.Node {
	for c := fieldset.FirstChild; c != nil; c = c.NextSibling {
		if c.DataAtom == atom.Legend {
			return c
		}
	}
	return nil
}

// Submit returns the request when the form is filled in with values, by the names of controls, and the button press is
// pressed. If press is nil it is the first button that is not disabled. The error names a value for which there is no
// control.
func (f *Form) Submit(values map[string]string, press *html.Node) (*Submission, error) {
	if press == nil {
		if i := slices.IndexFunc(f.controls, func(c *html.Node) bool {
			return (kind(c) == "submit" || kind(c) == "image") && c.DataAtom != atom.Select && c.DataAtom != atom.Textarea && !disabled(c)
		}); i >= 0 {
			press = f.controls[i]
		}
	}
	names := f.Names()
	for name := range values {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("the form has no field %q; it has %s", name, strings.Join(names, ", "))
		}
	}
	charset, enc := f.encoding()
	s := &Submission{}
	filled := map[string]bool{}
	for _, c := range f.controls {
		f.send(s, c, press, values, filled, charset)
	}
	if err := f.target(s, press); err != nil {
		return nil, err
	}
	if s.Method == http.MethodGet {
		return s, nil
	}
	return s, f.encode(s, f.attribute("enctype", press), enc)
}

func (f *Form) send(s *Submission, c, press *html.Node, values map[string]string, filled map[string]bool, charset string) {
	name, _ := dom.Attr(c, "name")
	add := func(v string) { s.Fields = append(s.Fields, Field{name, v}) }
	given, isGiven := values[name]
	value, has := dom.Attr(c, "value")
	of := kind(c)
	if c.DataAtom == atom.Select || c.DataAtom == atom.Textarea {
		of = c.Data
	}
	switch {
	case disabled(c):
	case of == "image":
		if c == press {
			if name != "" {
				name += "."
			}
			s.Fields = append(s.Fields, Field{name + "x", "0"}, Field{name + "y", "0"})
		}
	case name == "" || of == "reset" || of == "button":
	case of == "submit":
		if c == press {
			add(value)
		}
	case of == "checkbox" || of == "radio":
		_, checked := dom.Attr(c, "checked")
		if !has {
			value = "on"
		}
		if isGiven {
			checked = given == value
		}
		if checked {
			add(value)
		}
	case isGiven:
		if !filled[name] { // only the first control of a name is filled in
			add(given)
		}
		filled[name] = true
	case of == "select":
		for _, v := range chosen(c) {
			add(v)
		}
	case of == "textarea":
		add(text(c))
	case of == "hidden" && strings.EqualFold(name, "_charset_") && !has:
		add(charset)
	case of == "file":
		add("")
	default:
		add(value)
	}
}

// chosen returns the values of the options that a select sends.
func chosen(n *html.Node) (values []string) {
	_, multiple := dom.Attr(n, "multiple")
	first, found := "", false
	for o := range n.Descendants() {
		if o.Type != html.ElementNode || o.DataAtom != atom.Option {
			continue
		}
		_, off := dom.Attr(o, "disabled")
		if g := o.Parent; g != nil && g.DataAtom == atom.Optgroup {
			_, group := dom.Attr(g, "disabled")
			off = off || group
		}
		if off {
			continue
		}
		value, has := dom.Attr(o, "value")
		if !has {
			value = strings.Join(strings.Fields(text(o)), " ")
		}
		if !found {
			first, found = value, true
		}
		if _, selected := dom.Attr(o, "selected"); selected {
			if !multiple { // the last selected option counts
				values = values[:0]
			}
			values = append(values, value)
		}
	}
	if len(values) == 0 && !multiple && found {
		values = []string{first}
	}
	return values
}

func text(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// attribute returns an attribute of the button, such as formaction, or else that of the form.
func (f *Form) attribute(name string, press *html.Node) string {
	if press != nil {
		if v, ok := dom.Attr(press, "form"+name); ok {
			return strings.TrimSpace(v)
		}
	}
	v, _ := dom.Attr(f.node, name)
	return strings.TrimSpace(v)
}

func (f *Form) target(s *Submission, press *html.Node) error {
	s.Method = http.MethodGet
	if strings.EqualFold(f.attribute("method", press), "post") {
		s.Method = http.MethodPost
	}
	action := f.attribute("action", press)
	if action == "" { // the target is the page then, not its base
		s.URL = f.url
		return nil
	}
	var err error
	if s.URL, err = f.base.Resolve(action); err != nil {
		return fmt.Errorf("the form goes to %q, which is no URL: %w", action, err)
	}
	return nil
}

// encoding returns the encoding in which the form is sent, and its name. For UTF-8 the encoder is nil.
func (f *Form) encoding() (name string, enc *encoding.Encoder) {
	accept, _ := dom.Attr(f.node, "accept-charset")
	for _, label := range append(strings.FieldsFunc(accept, func(r rune) bool { return r == ' ' || r == ',' }), f.charset) {
		enc, err := htmlindex.Get(label)
		if err != nil {
			continue
		}
		name, err := htmlindex.Name(enc)
		if err == nil && name != "replacement" && !strings.HasPrefix(name, "utf-16") {
			if name == "utf-8" {
				return "UTF-8", nil
			}
			return name, encoding.HTMLEscapeUnsupported(enc.NewEncoder())
		}
	}
	return "UTF-8", nil
}

// asForms turns the escapes of net/url into those of forms.
var asForms = strings.NewReplacer("%2A", "*", "~", "%7E")

// encode sets the body of a POST.
func (f *Form) encode(s *Submission, enctype string, enc *encoding.Encoder) error {
	lines := strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n")
	sent := func(v string) string {
		v = lines.Replace(v)
		if enc == nil {
			return v
		}
		if out, err := enc.String(v); err == nil {
			return out
		}
		return v
	}
	switch strings.ToLower(enctype) {
	case "multipart/form-data":
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for _, field := range s.Fields {
			if err := w.WriteField(sent(field.Name), sent(field.Value)); err != nil {
				return err
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
		s.Body, s.ContentType = b.Bytes(), w.FormDataContentType()
	case "text/plain":
		for _, field := range s.Fields {
			s.Body = append(s.Body, sent(field.Name)+"="+sent(field.Value)+"\r\n"...)
		}
		s.ContentType = "text/plain"
	default:
		var pairs []string
		for _, field := range s.Fields {
			pairs = append(pairs, url.QueryEscape(sent(field.Name))+"="+url.QueryEscape(sent(field.Value)))
		}
		s.Body = append(s.Body, asForms.Replace(strings.Join(pairs, "&"))...)
		s.ContentType = "application/x-www-form-urlencoded"
	}
	return nil
}
