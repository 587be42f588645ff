// Package session logs a crawl in by a form, and notices when it is logged out.
//
// A [Login] is what a user's file says: the page with the form, what to fill in, and what proves that the login worked.
// A [Session] does the rest. The first page of the site makes it log in. Every later page is fetched within the
// session, and its response is checked: a redirect to the login page, the form itself, a 401, or a sign that the file
// names mean that the session is over. Such a response is not the page: its URL is requested again after another login,
// which happens once for all workers that notice the end of the session. A page that shows such a sign in two sessions
// in a row is accepted as it is.
//
// What was filled in and the cookies are secrets: no error and no log contains them. With a state the cookies are kept
// in the form that Config.Save gets, encrypted with what was filled in, which whoever resumes the crawl must have
// anyway.
package session

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/fields"
)

const (
	maxFile   = 64 << 10
	maxSecret = 64 << 10
)

// Login is what the file of a login says.
type Login struct {
	Page canonical.URL
	// User and Password go into the fields that look like them; Fields go into the fields with these names.
	User, Password string
	Fields         map[string]string
	// Form and Press select the form and its button. Nil means those that look like it.
	Form, Press *fields.Selector
	Success     []Sign // all of them hold when somebody is logged in
	EveryPage   bool   // Success holds on every page, and not only after the login
	Lost        []Sign // one of them holds when somebody is logged out
	Avoid       []*regexp.Regexp
	secrets     []string // all that is filled in, with its field names
}

// Sign is something that can be seen in a response.
type Sign struct {
	selector *fields.Selector
	url      *regexp.Regexp
	cookie   string
	text     string
}

// String returns the sign as it was written.
func (s Sign) String() string { return s.text }

// Read reads a login file in YAML or JSON. It replaces variables of the environment, and reads the files that it names.
// The error joins all that is wrong, and contains no secret.
func Read(path string, lookup func(string) (string, bool)) (*Login, error) {
	data, err := access.ReadFile(path, maxFile)
	if err != nil {
		return nil, err
	}
	root, err := document.Parse(path, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := reader{l: &Login{Fields: map[string]string{}}, lookup: lookup}
	if root.Kind != document.Map {
		return nil, fmt.Errorf("%s is %s; write page, fields and success into it; crawl docs shows how", path, root.Kind)
	}
	for _, e := range root.Unique(func(_, again document.Entry) { r.fail(again.Key, again.Line, errors.New("is there twice")) }) {
		r.entry(e)
	}
	r.whole()
	if r.plain {
		if err := private(path); err != nil {
			r.errs = append(r.errs, err)
		}
	}
	if len(r.errs) > 0 {
		for i, err := range r.errs {
			r.errs[i] = fmt.Errorf("%s: %w", path, err)
		}
		return nil, errors.Join(r.errs...)
	}
	return r.l, nil
}

// private returns an error for a file that contains a secret and can be read by others.
func private(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		return fmt.Errorf("it has a secret in it and may be read by others: 'chmod 600 %s', or write ${NAME} for a variable of the environment, or {file: PATH}", path)
	}
	return nil
}

type reader struct {
	l      *Login
	lookup func(string) (string, bool)
	plain  bool // the file itself contains a secret
	errs   []error
	wrong  []string // keys with an error, which are not missing as well
}

func (r *reader) fail(key string, line int, err error) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w [line %d]", key, err, line))
}

func (r *reader) entry(e document.Entry) {
	var err error
	switch n := e.Value; e.Key {
	case "page":
		r.l.Page, err = canonical.ParseTyped(n.Text)
	case "user":
		r.l.User, err = r.value("user", n)
	case "password":
		r.l.Password, err = r.value("password", n)
	case "fields":
		for _, field := range n.Unique(func(_, again document.Entry) { r.fail(again.Key, again.Line, errors.New("is there twice")) }) {
			if r.l.Fields[field.Key], err = r.value(field.Key, field.Value); err != nil {
				r.fail("fields."+document.QuoteKey(field.Key), field.Line, err)
			}
		}
		if err = nil; n.Kind != document.Map {
			err = fmt.Errorf("is %s; give names of fields and what to put in", n.Kind)
		}
	case "form":
		r.l.Form, err = selector(n.Text)
	case "press":
		r.l.Press, err = selector(n.Text)
	case "success":
		r.l.Success, err = signs(n)
	case "lost":
		r.l.Lost, err = signs(n)
	case "every_page":
		r.l.EveryPage, err = document.ParseBool(n.Text, "true or false")
	case "avoid":
		for _, item := range listOf(n) {
			re, bad := regexp.Compile(item.Text)
			if bad != nil || item.Text == "" {
				err = fmt.Errorf("%s is not a regular expression", document.Quote(item.Text))
				continue
			}
			r.l.Avoid = append(r.l.Avoid, re)
		}
	default:
		err = errors.New("is no part of a login; there are page, user, password, fields, form, press, success, every_page, lost and avoid")
	}
	if err != nil {
		r.fail(document.QuoteKey(e.Key), e.Line, err)
		r.wrong = append(r.wrong, e.Key)
	}
}

func listOf(n document.Node) []document.Node {
	if n.Kind == document.List {
		return n.Items
	}
	return []document.Node{n}
}

// value returns what to fill in: a text with variables, or the content of {file: PATH} without its last line ends.
func (r *reader) value(name string, n document.Node) (string, error) {
	if n.Kind == document.Map {
		if len(n.Keys) != 1 || n.Keys[0].Key != "file" || !n.Keys[0].Value.Single() {
			return "", errors.New("is a group; give a text, or {file: PATH}")
		}
		data, err := access.ReadFile(n.Keys[0].Value.Text, maxSecret)
		if err != nil {
			return "", err
		}
		return r.noted(name, strings.TrimRight(string(data), "\r\n"))
	}
	if !n.Single() {
		return "", fmt.Errorf("is %s; give a text, ${NAME} for a variable of the environment, or {file: PATH}", n.Kind)
	}
	text, err := access.Expand(n.Text, r.lookup)
	if err != nil {
		return "", err
	}
	r.plain = r.plain || text == n.Text && hidden().MatchString(name)
	return r.noted(name, text)
}

// hidden matches the names of fields whose values must be kept secret.
var hidden = lazy.Regexp(`(?i)pass|pwd|secret|token|pin|code|key`)

func (r *reader) noted(name, text string) (string, error) {
	if text == "" {
		return "", errors.New("is empty")
	}
	r.l.secrets = append(r.l.secrets, name+"="+text)
	return text, nil
}

func (r *reader) whole() {
	l := r.l
	need := func(there bool, text string, keys ...string) {
		if !there && !slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(r.wrong, key) }) {
			r.errs = append(r.errs, errors.New(text))
		}
	}
	need(!l.Page.IsZero(), "page is missing: give the URL of the page with the form", "page")
	need(len(l.Fields) > 0 || l.User != "" && l.Password != "", "what to fill in is missing: give user and password, or fields by their names", "user", "password", "fields")
	need(len(l.Success) > 0, "success is missing: give what proves that somebody is logged in, such as css:a[href='/logout']", "success")
}

func selector(s string) (*fields.Selector, error) {
	rest, ok := strings.CutPrefix(s, "css:")
	if !ok {
		return nil, fmt.Errorf("%s is no selector; write css:SELECTOR", document.Quote(s))
	}
	return fields.ParseSelector(strings.TrimSpace(rest))
}

// signs reads a sign, or a list of signs.
func signs(n document.Node) (all []Sign, err error) {
	forms := map[string]func(*Sign, string) error{
		"css:": func(s *Sign, rest string) (err error) {
			s.selector, err = fields.ParseSelector(rest)
			return err
		},
		"url:":    func(s *Sign, rest string) (err error) { s.url, err = regexp.Compile(rest); return err },
		"cookie:": func(s *Sign, rest string) error { s.cookie = rest; return nil },
	}
	for _, item := range listOf(n) {
		s, known := Sign{text: item.Text}, false
		for _, prefix := range slices.Sorted(maps.Keys(forms)) {
			if rest, ok := strings.CutPrefix(item.Text, prefix); ok && strings.TrimSpace(rest) != "" {
				if err := forms[prefix](&s, strings.TrimSpace(rest)); err != nil {
					return nil, err
				}
				known = true
			}
		}
		if !known {
			return nil, fmt.Errorf("%s is no sign; give css:SELECTOR, url:REGEXP or cookie:NAME", document.Quote(item.Text))
		}
		all = append(all, s)
	}
	return all, nil
}

// Logout matches URLs that log somebody out, by their usual names: a whole segment of a path, or the name or value of a
// parameter.
const Logout = `(?i)[/?&=;](?:[a-z]+[:._-])?(?:do|user|member|customer|account|admin|process|force|perform)?[-_]?` +
	`(?:(?:log|sign)[-_]?(?:out|off)|abmelden|ausloggen|d(?:e|%C3%A9)connexion|cerrar[-_]?sesion|uitloggen|end[-_]?session|(?:session|login)s?/(?:destroy|end|delete))` +
	`(?:\.[a-z]+)?(?:[/?&#=;]|$)`
