package access

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Rule is what is special about the hosts that Match names.
type Rule struct {
	// Match is a host, or *.NAME for all names below, with an optional port: lower case, ASCII, IPv6 in brackets, no
	// default port. Empty is refused.
	Match         string
	Header        http.Header      // sent over that of all requests, name by name
	Authorization string           // value of that field, as [ParseAuth] makes it; empty sends none
	Proxy         *url.URL         // carries the requests; nil leaves the choice to whoever asks, unless Direct
	Direct        bool             // no proxy carries them
	Certificate   *tls.Certificate // shown to servers that ask for one; nil shows none of the rule's
}

// Login is a credential for the hosts that Match names.
type Login struct {
	Match         string // as in a [Rule]
	Authorization string // as in a [Rule]; empty sends none, also if another login has one
}

// Config is what a [Table] is built from. The zero Config knows nothing special.
type Config struct {
	Logins []Login // go before what Rules say, the first that matches first
	Rules  []Rule  // for hosts; the first that matches counts
	Netrc  []Login // where neither Logins nor the rule of a host has one
}

// Table finds what is special about a host. It is made by [New] and safe for concurrent use. Nil and the zero Table
// are empty.
type Table struct {
	cfg                  Config
	logins, rules, netrc index
}

// New returns a Table, or an error that names the entry which matches nothing.
func New(cfg Config) (*Table, error) {
	t := &Table{cfg: cfg}
	return t, cmp.Or(
		t.rules.fill("Rules", len(cfg.Rules), func(i int) string { return cfg.Rules[i].Match }),
		t.logins.fill("Logins", len(cfg.Logins), func(i int) string { return cfg.Logins[i].Match }),
		t.netrc.fill("Netrc", len(cfg.Netrc), func(i int) string { return cfg.Netrc[i].Match }),
	)
}

// Rule is that of a host as in a URL, lower case, without a default port; or nil.
func (t *Table) Rule(authority string) *Rule {
	if t == nil {
		return nil
	}
	if i := t.rules.find(authority); i >= 0 {
		return &t.cfg.Rules[i]
	}
	return nil
}

// Authorization is the value of that field for a host; "" if there is none.
func (t *Table) Authorization(authority string) string {
	if t == nil {
		return ""
	}
	if i := t.logins.find(authority); i >= 0 {
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

type index struct {
	exact map[string]int // "example.com", "example.com:8080"
	below map[string]int // ".example.com", ".example.com:8080"
}

// fill enters the patterns of a field of the Config.
func (x *index) fill(field string, n int, match func(i int) string) error {
	for i := range n {
		if !x.add(match(i), i) {
			return fmt.Errorf("access: Config.%s[%d].Match is %q: use a host such as example.com or *.example.com", field, i, match(i))
		}
	}
	return nil
}

// add enters a pattern unless an earlier one is the same, or reports that it is none.
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
