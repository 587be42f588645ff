package canonical

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
)

// Step is one change from a text to its canonical URL.
type Step struct {
	Rule     string // the name of the step, in one or two words
	From, To string // the whole reference, before and after
	Why      string // what the step does, as a clause
}

// Steps explains how the text of an absolute URL becomes canonical; the rules come last. The result of the last step is
// the URL. Nil rules apply none. If the text is not a URL, the error is that of [Parse], and the steps are those before
// it.
//
// It does one after another what [URL.Resolve] does at once; a test compares both.
func Steps(text string, r *Rules) ([]Step, URL, error) {
	w := walk{now: text}
	u, err := Parse(text)
	w.step("white space", "controls and space around a URL, and line ends within, are not part of it",
		strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(Trim(text)))
	w.step("fragment", "what follows # is never sent", w.now[:index(w.now, '#')])
	if err != nil {
		return w.steps, URL{}, err
	}
	w.authority(u)
	w.path(u)
	for rule := range numRules {
		if r == nil || !r.on[rule] {
			continue
		}
		only := &Rules{drop: r.drop}
		only.on[rule] = true
		u = only.Apply(u)
		w.step("rule "+rule.String(), rules[rule].why, u.s)
	}
	return w.steps, u, nil
}

type walk struct {
	steps []Step
	now   string
}

func (w *walk) step(rule, why, to string) {
	w.steps = append(w.steps, Step{Rule: rule, From: w.now, To: to, Why: why})
	w.now = to
}

func (w *walk) authority(u URL) {
	rest := w.now[schemeLen(w.now)+1:]
	for rest != "" && isSlash(rest[0]) {
		rest = rest[1:]
	}
	end := strings.IndexAny(rest, `/\?`)
	if end < 0 {
		end = len(rest)
	}
	given, tail := rest[:end], rest[end:]
	w.step("scheme", "it is in lower case, and two slashes follow", u.Scheme()+"://"+given+tail)
	port := ""
	if colon := strings.LastIndexByte(given, ':'); colon > strings.LastIndexByte(given, ']') {
		port = given[colon:]
	}
	host := u.s[u.host:u.port]
	w.step("host", "it is in lower case, in the form of the DNS, without a dot at its end", u.Scheme()+"://"+host+port+tail)
	w.step("port", "the scheme's own port says nothing", u.Origin()+tail)
}

func (w *walk) path(u URL) {
	tail := w.now[u.path:]
	path, query := tail, ""
	if q := index(tail, '?'); q < len(tail) {
		path, query = tail[:q], tail[q:]
	}
	slashed := "/" + strings.TrimPrefix(strings.ReplaceAll(path, `\`, "/"), "/")
	w.step("path", `a path begins with /, and \ is another /`, u.Origin()+slashed+query)
	w.step("dot segments", "they are walked along", u.Origin()+string(walkDots(slashed))+query)
	w.step("escapes", "what need not be escaped is not, all else is, with upper-case digits", u.s)
}

// walkDots resolves dot segments and changes nothing else.
func walkDots(path string) []byte {
	out := []byte{'/'}
	for rest := path[1:]; ; {
		n := index(rest, '/')
		switch string(appendEscaped(nil, rest[:n], inPath)) {
		case ".":
		case "..":
			out = parent(out, 0)
		default:
			out = append(out, rest[:n]...)
			if n < len(rest) {
				out = append(out, '/')
			}
		}
		if n == len(rest) {
			return out
		}
		rest = rest[n+1:]
	}
}

// ParseTyped parses a URL as a person types it; see [Typed]. It refuses text that is not a web address.
func ParseTyped(s string) (URL, error) {
	if err := checkScheme(s); err != nil {
		return URL{}, fmt.Errorf("%q: %w", s, err)
	}
	return Parse(Typed(s))
}

// Typed removes white space and quotes around s and adds a missing scheme: https, or http if there is a port other than
// 443 and 8443.
func Typed(s string) string {
	s = unquoted(s)
	if strings.Contains(s, "://") || s == "" {
		return s
	}
	host, _, _ := strings.Cut(s, "/")
	if _, port, err := net.SplitHostPort(host); err == nil && port != "" && port != "443" && port != "8443" {
		return "http://" + s
	}
	return "https://" + s
}

// quotes are often copied together with URLs from mails and tables.
var quotes = [][2]string{{"<", ">"}, {`"`, `"`}, {"'", "'"}, {"“", "”"}, {"«", "»"}}

func unquoted(s string) string {
	s = strings.TrimSpace(s)
	for _, q := range quotes {
		if inner, ok := strings.CutPrefix(s, q[0]); ok {
			if inner, ok = strings.CutSuffix(inner, q[1]); ok {
				return strings.TrimSpace(inner)
			}
		}
	}
	return s
}

// otherSchemes matches schemes without "//", as their addresses look like a host and a port.
var otherSchemes = lazy.Regexp(`(?i)^(mailto|tel|sms|javascript|data|about|blob|urn|file):`)

func checkScheme(s string) error {
	s = unquoted(s)
	switch scheme := otherSchemes().FindString(s); {
	case scheme != "":
		return fmt.Errorf("%s addresses have no pages: give a URL with http or https", strings.ToLower(scheme))
	case strings.HasPrefix(s, `"`) || strings.HasPrefix(s, "'") || strings.HasPrefix(s, "“"):
		return errors.New("a quotation mark is in front, and none behind: take it off")
	case strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../"):
		return errors.New("it is the path of a file: give a URL, or --input-file for a list of them")
	case strings.HasPrefix(s, "http:/") && !strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https:/") && !strings.HasPrefix(s, "https://"),
		strings.HasPrefix(s, "http//"), strings.HasPrefix(s, "https//"):
		return errors.New("two slashes are missing, or the colon: write http:// or https://")
	}
	return nil
}
