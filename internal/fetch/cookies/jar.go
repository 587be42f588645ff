package cookies

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/publicsuffix"

	"github.com/treadlight/crawl/internal/clock"
)

// Defaults of [Config].
const (
	defaultPerSite = 100    // twice what RFC 6265 section 6.1 requires of a browser
	defaultSites   = 10_000 // each of 16 KiB at most, and a few hundred bytes in practice
)

const (
	// mostCookie bounds a name together with its value, in bytes (RFC 6265bis section 5.6).
	mostCookie = 4096
	// mostSite bounds the cookies of a site, in bytes; servers accept headers of 8 KiB.
	mostSite = 16 << 10
	// mostHeader bounds the cookies of one request, in bytes, to what servers accept.
	mostHeader = 8 << 10
	// longest bounds the lifetime of a cookie (RFC 6265bis section 5.5).
	longest = 400 * 24 * time.Hour
)

// Config configures a [Jar]. The zero Config is usable.
type Config struct {
	MaxPerSite int         // cookies of a registrable domain and all names below it; zero means 100
	MaxSites   int         // bounds the sites with cookies; zero means 10000
	Clock      clock.Clock // nil means the system clock
}

// Origin is the target of a request, as far as cookies depend on it.
type Origin struct {
	TLS  bool   // the request uses https
	Host string // name or address without port and brackets, in lower case
	Path string // path of the URL as it is spelled there, without the query
}

// Jar stores cookies. It is made by [New].
type Jar struct {
	cfg Config

	mu    sync.Mutex // guards what follows
	sites *lru.Cache[string, *site]
	made  uint64 // how many cookies were made so far
}

// site has the cookies of one registrable domain, in the order in which they were made.
type site struct {
	list  []cookie
	bytes int
}

type cookie struct {
	name, value  string // the value is kept as spelled
	domain, path string
	hostOnly     bool // not sent to the names below domain
	secure       bool
	httpOnly     bool      // hidden from scripts
	expires      time.Time // zero means at the end of the crawl
	made         uint64
}

func (c *cookie) size() int { return len(c.name) + len(c.value) + len(c.domain) + len(c.path) }

// same reports whether one of the cookies replaces the other (RFC 6265 section 5.3, step 11).
func (c *cookie) same(o *cookie) bool {
	return c.name == o.name && c.domain == o.domain && c.path == o.path && c.hostOnly == o.hostOnly
}

// New returns an empty Jar, or an error that names the invalid fields of cfg.
func New(cfg Config) (*Jar, error) {
	cfg.MaxPerSite, cfg.MaxSites = cmp.Or(cfg.MaxPerSite, defaultPerSite), cmp.Or(cfg.MaxSites, defaultSites)
	cfg.Clock = cmp.Or(cfg.Clock, clock.System())
	if cfg.MaxPerSite < 0 || cfg.MaxSites < 0 {
		return nil, fmt.Errorf("cookies: Config.MaxPerSite is %d and MaxSites %d: use positive values, or zero for %d and %d",
			cfg.MaxPerSite, cfg.MaxSites, defaultPerSite, defaultSites)
	}
	sites, err := lru.New[string, *site](cfg.MaxSites)
	if err != nil {
		return nil, fmt.Errorf("cookies: %w", err)
	}
	return &Jar{cfg: cfg, sites: sites}, nil
}

// Len returns the number of stored cookies, including expired ones that were not removed yet.
func (j *Jar) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, s := range j.sites.Values() {
		n += len(s.list)
	}
	return n
}

// Set stores the cookies of the Set-Cookie lines of a response from o. It ignores lines that are malformed, and cookies
// that o must not set.
func (j *Jar) Set(o Origin, lines []string) {
	if len(lines) == 0 {
		return
	}
	now := j.cfg.Clock.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, line := range lines {
		if i >= j.cfg.MaxPerSite { // more would replace those just set
			return
		}
		if c, ok := accept(o, line, now); ok {
			j.putLocked(o, c, now)
		}
	}
}

// accept parses and checks one cookie. It uses net/http for the attributes only, as that refuses quotes and commas in
// values.
func accept(o Origin, line string, now time.Time) (c cookie, ok bool) {
	pair, attributes, _ := strings.Cut(line, ";")
	if c.name, c.value, ok = strings.Cut(pair, "="); !ok {
		return c, false
	}
	c.name, c.value = strings.TrimSpace(c.name), strings.TrimSpace(c.value)
	in, err := http.ParseSetCookie("n=v;" + attributes)
	if err != nil || !c.sendable() {
		return c, false
	}
	c.path, c.secure, c.httpOnly, c.expires = in.Path, in.Secure, in.HttpOnly, end(in, now)
	if c.domain, c.hostOnly, ok = domainOf(o.Host, in.Domain); !ok {
		return c, false
	}
	if !strings.HasPrefix(c.path, "/") {
		c.path = defaultPath(o.Path)
	}
	return c, len(c.path) <= mostCookie && (o.TLS || !c.secure) && c.honest()
}

func end(in *http.Cookie, now time.Time) time.Time {
	last := now.Add(longest)
	switch {
	case in.MaxAge < 0:
		return now
	case in.MaxAge > int(longest/time.Second):
		return last
	case in.MaxAge > 0:
		return now.Add(time.Duration(in.MaxAge) * time.Second)
	case in.Expires.After(last):
		return last
	}
	return in.Expires
}

// sendable reports whether a request can carry the cookie without its text being read as something else.
func (c *cookie) sendable() bool {
	return c.name != "" && len(c.name)+len(c.value) <= mostCookie && !strings.ContainsAny(c.name, "=; \t") &&
		!strings.Contains(c.value, ";") && httpguts.ValidHeaderFieldValue(c.name) && httpguts.ValidHeaderFieldValue(c.value)
}

// honest reports whether the cookie has the attributes that the prefix of its name requires.
func (c *cookie) honest() bool {
	name := strings.ToLower(c.name)
	switch {
	case strings.HasPrefix(name, "__host-"):
		return c.secure && c.hostOnly && c.path == "/"
	case strings.HasPrefix(name, "__secure-"):
		return c.secure
	}
	return true
}

// domainOf returns the domain of a cookie with this Domain attribute. With hostOnly it is sent to that host only. The
// result ok is false if host must not set such a cookie.
func domainOf(host, attr string) (domain string, hostOnly, ok bool) {
	attr = strings.ToLower(strings.TrimPrefix(attr, "."))
	if attr == "" || attr == host {
		return host, attr == "" || isAddress(host) || isSuffix(host), host != ""
	}
	if !below(host, attr) || isAddress(host) || isSuffix(attr) {
		return "", false, false
	}
	return attr, false, true
}

// isSuffix reports whether a name is a public suffix: the names below it have different owners.
func isSuffix(name string) bool {
	suffix, _ := publicsuffix.PublicSuffix(name)
	return suffix == name
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func below(host, domain string) bool {
	return len(host) > len(domain) && host[len(host)-len(domain)-1] == '.' && strings.HasSuffix(host, domain)
}

// defaultPath returns the directory of a path (RFC 6265 section 5.1.4).
func defaultPath(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 && path[0] == '/' {
		return path[:i]
	}
	return "/"
}

// key returns the site of a host: its registrable domain, or the host itself if it has none.
func key(host string) string {
	if isAddress(host) {
		return host
	}
	if name, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return name
	}
	return host
}

func (j *Jar) putLocked(o Origin, c cookie, now time.Time) {
	k := key(c.domain)
	s, ok := j.sites.Get(k)
	if !ok {
		s = new(site)
	}
	s.expire(now)
	if !o.TLS && s.guarded(&c) {
		return
	}
	j.made++
	c.made = j.made
	if i := slices.IndexFunc(s.list, func(old cookie) bool { return c.same(&old) }); i >= 0 {
		c.made = s.list[i].made // it keeps its place in the header
		s.remove(i)
	}
	if c.expires.IsZero() || c.expires.After(now) {
		s.add(c)
		for len(s.list) > j.cfg.MaxPerSite || s.bytes > mostSite {
			s.remove(0)
		}
	}
	if len(s.list) == 0 {
		j.sites.Remove(k)
		return
	}
	j.sites.Add(k, s)
}

// guarded reports whether c, set over plain HTTP, would replace or shadow a secure cookie (RFC 6265bis section 5.7,
// step 16).
func (s *site) guarded(c *cookie) bool {
	return slices.ContainsFunc(s.list, func(old cookie) bool {
		return old.secure && old.name == c.name && pathMatches(c.path, old.path) &&
			(old.domain == c.domain || below(old.domain, c.domain) || below(c.domain, old.domain))
	})
}

// add inserts a cookie, keeping the list in the order in which the cookies were made.
func (s *site) add(c cookie) {
	i, _ := slices.BinarySearchFunc(s.list, c.made, func(old cookie, made uint64) int { return cmp.Compare(old.made, made) })
	s.list = slices.Insert(s.list, i, c)
	s.bytes += c.size()
}

func (s *site) remove(i int) {
	s.bytes -= s.list[i].size()
	s.list = slices.Delete(s.list, i, i+1)
}

func (s *site) expire(now time.Time) {
	s.list = slices.DeleteFunc(s.list, func(c cookie) bool {
		gone := !c.expires.IsZero() && !c.expires.After(now)
		if gone {
			s.bytes -= c.size()
		}
		return gone
	})
}

// of returns the cookies for a request to o. Longer paths come first, then older cookies (RFC 6265 section 5.4).
func (j *Jar) of(o Origin) (send []cookie) {
	o.Path = cmp.Or(o.Path, "/")
	now := j.cfg.Clock.Now()
	j.mu.Lock()
	if s, ok := j.sites.Get(key(o.Host)); ok {
		s.expire(now)
		for i := range s.list {
			if s.list[i].goesTo(o) {
				send = append(send, s.list[i])
			}
		}
	}
	j.mu.Unlock()
	slices.SortStableFunc(send, func(a, b cookie) int { return cmp.Compare(len(b.path), len(a.path)) })
	return send
}

// Lines returns the cookies of a request to o in the form of Set-Cookie lines, without expiry.
func (j *Jar) Lines(o Origin) (lines []string) {
	for _, c := range j.of(o) {
		line := c.name + "=" + c.value + "; Path=" + c.path
		if !c.hostOnly {
			line += "; Domain=" + c.domain
		}
		if c.secure {
			line += "; Secure"
		}
		if c.httpOnly {
			line += "; HttpOnly"
		}
		lines = append(lines, line)
	}
	return lines
}

// Header returns the value of the Cookie field for a request to o, of at most 8 KiB, or an empty string. Longer paths
// come first, then older cookies.
func (j *Jar) Header(o Origin) string {
	send := j.of(o)
	var b strings.Builder
	for i := range send {
		c := &send[i]
		if b.Len()+len("; =")+len(c.name)+len(c.value) > mostHeader {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(c.name + "=" + c.value)
	}
	return b.String()
}

func (c *cookie) goesTo(o Origin) bool {
	return (c.domain == o.Host || !c.hostOnly && below(o.Host, c.domain)) && (o.TLS || !c.secure) && pathMatches(o.Path, c.path)
}

// pathMatches reports whether path equals the path of a cookie or is below it (RFC 6265 section 5.1.4).
func pathMatches(path, cookiePath string) bool {
	rest, ok := strings.CutPrefix(path, cookiePath)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(cookiePath, "/"))
}
