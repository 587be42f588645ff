package canonical

import "strings"

// Step is one thing that is done to a reference until it is canonical.
type Step struct {
	Rule     string // its name, in one or two words
	From, To string // the whole reference, before and after
	Why      string // what the step does, as a clause
}

// Changed reports whether the step did anything.
func (s *Step) Changed() bool { return s.From != s.To }

// Steps tells how the text of an absolute URL becomes canonical, one step after another and
// the rules last; the text of the last one is the URL. Nil rules are none. If the text is no
// URL, the error is that of [Parse], and the steps are those up to where it fails.
//
// [URL.Resolve] does all of them at once. Here each is done by itself, so that it can be
// seen; a test holds the two together.
func Steps(text string, rules *Rules) ([]Step, URL, error) {
	w := walk{now: text}
	u, err := Parse(text)
	w.step("white space", "controls and space around a URL, and line ends within, are not part of it", clean(text))
	w.step("fragment", "what follows # is never sent", cutAt(w.now, '#'))
	if err != nil {
		return w.steps, URL{}, err
	}
	w.authority(u)
	w.path(u)
	for rule := range numRules {
		if rules == nil || !rules.on[rule] {
			continue
		}
		only := &Rules{drop: rules.drop}
		only.on[rule] = true
		u = only.Apply(u)
		w.step("rule "+rule.String(), ruleWhys[rule], u.s)
	}
	return w.steps, u, nil
}

// ruleWhys explains the rules.
var ruleWhys = [numRules]string{
	Sessions:   "session ids are another for every visitor",
	Slashes:    "slashes that follow a slash are left out",
	Tracking:   "parameters that tell where a visitor came from are left out",
	Drop:       "these parameters are to be left out",
	EmptyQuery: "a ? with nothing behind it is left out",
	Index:      "a directory's own page goes by the directory's name",
	Sort:       "parameters go in the order of their names",
}

// walk gathers steps.
type walk struct {
	steps []Step
	now   string
}

func (w *walk) step(rule, why, to string) {
	w.steps = append(w.steps, Step{Rule: rule, From: w.now, To: to, Why: why})
	w.now = to
}

// clean is text without what the URL parser does not see.
func clean(text string) string {
	return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(trim(text))
}

// cutAt is s up to the first c.
func cutAt(s string, c byte) string { return s[:index(s, c)] }

// authority walks from how a URL begins to where its path does.
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

// path walks through the path and the query.
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

// walkDots resolves the dots of a path and changes nothing else.
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
