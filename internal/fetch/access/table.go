package access

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// Rule has the settings of the hosts that Match names.
type Rule struct {
	// Match is a host, or *.NAME for all names below, with an optional port: lower case, ASCII, IPv6 in brackets, no
	// default port. Empty is an error.
	Match         string
	Header        http.Header      // replaces fields of the same name in the header of all requests
	Authorization string           // value of the Authorization field, as [ParseAuth] returns it; empty means none
	Proxy         *url.URL         // sends the requests by this proxy; nil leaves the choice to the caller, unless Direct is set
	Direct        bool             // sends the requests without a proxy
	Certificate   *tls.Certificate // presented to servers that request one; nil means none of this rule
}

// Login is a credential for the hosts that Match names.
type Login struct {
	Match         string // as in a [Rule]
	Authorization string // as in a [Rule]; empty sends none, even if a later login or rule has one
}

// Config is what a [Table] is built from. The zero Config has no settings.
type Config struct {
	Logins []Login // take precedence over Rules; the first that matches applies
	Rules  []Rule  // the first that matches a host applies
	Netrc  []Login // apply to hosts for which neither Logins nor Rules have a credential
}

// Table has the settings of single hosts. It is made by [New] and safe for concurrent use. Nil and the zero Table are
// empty.
type Table struct {
	cfg                  Config
	logins, rules, netrc index
	used                 []atomic.Bool // of the logins
}

// New returns a Table, or an error that names the entry with an invalid Match.
func New(cfg Config) (*Table, error) {
	t := &Table{cfg: cfg, used: make([]atomic.Bool, len(cfg.Logins))}
	return t, cmp.Or(
		t.rules.fill("Rules", len(cfg.Rules), func(i int) string { return cfg.Rules[i].Match }),
		t.logins.fill("Logins", len(cfg.Logins), func(i int) string { return cfg.Logins[i].Match }),
		t.netrc.fill("Netrc", len(cfg.Netrc), func(i int) string { return cfg.Netrc[i].Match }),
	)
}

// Rule returns the rule of a host, which is written as in a URL: lower case, without a default port. It returns nil if
// there is none. The rule must not be changed.
func (t *Table) Rule(authority string) *Rule {
	if t == nil {
		return nil
	}
	if i := t.rules.find(authority); i >= 0 {
		return &t.cfg.Rules[i]
	}
	return nil
}

// Authorization returns the value of the Authorization field for a host, or an empty string if there is none.
func (t *Table) Authorization(authority string) string {
	if t == nil {
		return ""
	}
	if i := t.logins.find(authority); i >= 0 {
		t.used[i].Store(true)
		return t.cfg.Logins[i].Authorization
	}
	if r := t.Rule(authority); r != nil && r.Authorization != "" {
		return r.Authorization
	}
	if i := t.netrc.find(authority); i >= 0 {
		return t.cfg.Netrc[i].Authorization
	}
	return ""
}

// Unused returns the Match of each login that Authorization has not returned yet.
func (t *Table) Unused() (matches []string) {
	if t == nil {
		return nil
	}
	for i := range t.used {
		if !t.used[i].Load() {
			matches = append(matches, t.cfg.Logins[i].Match)
		}
	}
	return matches
}

type index struct {
	exact map[string]int // "example.com", "example.com:8080"
	below map[string]int // ".example.com", ".example.com:8080"
}

// fill adds the patterns of a field of the Config.
func (x *index) fill(field string, n int, match func(i int) string) error {
	for i := range n {
		if !x.add(match(i), i) {
			return fmt.Errorf("access: Config.%s[%d].Match is %q: use a host such as example.com or *.example.com", field, i, match(i))
		}
	}
	return nil
}

// add adds a pattern unless there is the same one already. It returns false if the pattern is invalid.
func (x *index) add(match string, i int) bool {
	if x.exact == nil {
		x.exact, x.below = make(map[string]int), make(map[string]int)
	}
	to, name := x.exact, match
	if rest, ok := strings.CutPrefix(match, "*."); ok {
		to, name = x.below, "."+rest
	}
	if host := withoutPort(name); host == "" || host == "." || strings.ContainsAny(name, "*/@ ") {
		return false
	}
	if _, ok := to[name]; !ok {
		to[name] = i
	}
	return true
}

func (x *index) find(authority string) int {
	if len(x.exact)+len(x.below) == 0 {
		return -1
	}
	first := -1
	see := func(m map[string]int, name string) {
		if i, ok := m[name]; ok && (first < 0 || i < first) {
			first = i
		}
	}
	host := withoutPort(authority)
	see(x.exact, host)
	see(x.exact, authority)
	if len(x.below) == 0 || strings.HasPrefix(host, "[") {
		return first
	}
	for i := 1; i < len(host); i++ {
		if host[i] == '.' {
			see(x.below, host[i:])
			see(x.below, authority[i:])
		}
	}
	return first
}

func withoutPort(authority string) string {
	i := strings.LastIndexByte(authority, ':')
	if i < 0 || strings.HasSuffix(authority, "]") {
		return authority
	}
	return authority[:i]
}
