package access

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/treadlight/crawl/internal/ratelimit"
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
	logins, rules, netrc ratelimit.Patterns
	used                 []atomic.Bool // of the logins
}

// New returns a Table, or an error that names the entry with an invalid Match.
func New(cfg Config) (*Table, error) {
	t := &Table{cfg: cfg, used: make([]atomic.Bool, len(cfg.Logins))}
	return t, cmp.Or(
		fill(&t.rules, "Rules", len(cfg.Rules), func(i int) string { return cfg.Rules[i].Match }),
		fill(&t.logins, "Logins", len(cfg.Logins), func(i int) string { return cfg.Logins[i].Match }),
		fill(&t.netrc, "Netrc", len(cfg.Netrc), func(i int) string { return cfg.Netrc[i].Match }),
	)
}

// Rule returns the rule of a host, which is written as in a URL: lower case, without a default port. It returns nil if
// there is none. The rule must not be changed.
func (t *Table) Rule(authority string) *Rule {
	if t == nil {
		return nil
	}
	if i := t.rules.Find(authority); i >= 0 {
		return &t.cfg.Rules[i]
	}
	return nil
}

// Authorization returns the value of the Authorization field for a host, or an empty string if there is none.
func (t *Table) Authorization(authority string) string {
	if t == nil {
		return ""
	}
	if i := t.logins.Find(authority); i >= 0 {
		t.used[i].Store(true)
		return t.cfg.Logins[i].Authorization
	}
	if r := t.Rule(authority); r != nil && r.Authorization != "" {
		return r.Authorization
	}
	if i := t.netrc.Find(authority); i >= 0 {
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

// fill adds the patterns of a field of the Config.
func fill(p *ratelimit.Patterns, field string, n int, match func(i int) string) error {
	for i := range n {
		if !add(p, match(i), i) {
			return fmt.Errorf("access: Config.%s[%d].Match is %q: use a host such as example.com or *.example.com", field, i, match(i))
		}
	}
	return nil
}

func add(p *ratelimit.Patterns, match string, i int) bool {
	return match != "*" && !strings.Contains(match, "@") && p.Add(match, i)
}
