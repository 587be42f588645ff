package render

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/treadlight/crawl/internal/fetch/cookies"
)

// origin returns the origin of the page for the cookie jar.
func (v *view) origin() cookies.Origin {
	path, _, _ := strings.Cut(v.of.URL.Path(), "?")
	return cookies.Origin{TLS: v.of.URL.Scheme() == "https", Host: v.of.URL.Hostname(), Path: path}
}

// cookieKey returns a key that distinguishes the cookies of one page.
func cookieKey(name, domain, path string) string { return name + ";" + domain + ";" + path }

// giveCookies sets the crawl's cookies for the page. The browser hides those that are HttpOnly from its scripts.
func (v *view) giveCookies(ctx context.Context) {
	jar := v.b.r.cfg.Cookies
	if jar == nil {
		return
	}
	v.cookies = map[string]*http.Cookie{}
	var given []string
	for _, line := range jar.Lines(v.origin()) {
		pair, attributes, _ := strings.Cut(line, ";")
		c, err := http.ParseSetCookie("n=v;" + attributes)
		if err != nil {
			continue
		}
		c.Name, c.Value, _ = strings.Cut(pair, "=")
		p := network.SetCookieParams{Name: c.Name, Value: c.Value, URL: v.of.URL.String(), Path: c.Path, Secure: &c.Secure, HTTPOnly: &c.HttpOnly}
		domain := v.of.URL.Hostname()
		if c.Domain != "" {
			p.Domain, domain = c.Domain, "."+c.Domain
		}
		if _, err := chromedp.Call(ctx, network.SetCookie, p); err == nil {
			v.cookies[cookieKey(c.Name, domain, c.Path)] = c
			given = append(given, pair)
		}
	}
	v.mu.Lock()
	v.given = given
	v.mu.Unlock()
}

// ownCookies returns those cookies of a request that the page did not get from the crawl, or has changed since. The jar
// adds the crawl's own, which may have changed meanwhile.
func (v *view) ownCookies(header string) string {
	v.mu.Lock()
	given := v.given
	v.mu.Unlock()
	pairs := strings.Split(header, "; ")
	return strings.Join(slices.DeleteFunc(pairs, func(pair string) bool { return slices.Contains(given, pair) }), "; ")
}

// keepCookies adds the cookies that scripts have set to the crawl's jar, and removes those that they have deleted.
func (v *view) keepCookies(ctx context.Context) {
	jar := v.b.r.cfg.Cookies
	if jar == nil {
		return
	}
	all, err := chromedp.Call(ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{v.of.URL.String()}})
	if err != nil {
		return
	}
	at := v.origin()
	known := strings.Split(jar.Header(at), "; ")
	var lines []string
	for _, c := range all.Cookies {
		key := cookieKey(c.Name, c.Domain, c.Path)
		given := v.cookies[key]
		delete(v.cookies, key)
		if c.HTTPOnly || given != nil && given.Value == c.Value || slices.Contains(known, c.Name+"="+c.Value) {
			continue // a response has set it, with what the browser does not tell, such as its end
		}
		lines = append(lines, cookieLine(c.Name, c.Value, c.Domain, c.Path, c.Secure))
	}
	for key, c := range v.cookies {
		if _, domain, _ := strings.Cut(strings.TrimSuffix(key, ";"+c.Path), ";"); !c.HttpOnly {
			lines = append(lines, cookieLine(c.Name, "", domain, c.Path, c.Secure)+"; Max-Age=0")
		}
	}
	jar.Set(at, lines)
}

func cookieLine(name, value, domain, path string, secure bool) string {
	line := name + "=" + value + "; Path=" + path
	if strings.HasPrefix(domain, ".") {
		line += "; Domain=" + domain
	}
	if secure {
		line += "; Secure"
	}
	return line
}
