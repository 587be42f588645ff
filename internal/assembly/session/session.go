package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/publicsuffix"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/forms"
	"github.com/treadlight/crawl/internal/web/mediatype"
)

var _ pipeline.Session = (*Session)(nil)

const (
	maxHops = 10 // redirects of a login
	// maxWithout is how many logins in a row may succeed without a page that is fetched within their sessions.
	maxWithout  = 3
	maxShown    = 10_000 // how many pages are remembered that have shown the sign of a lost session
	maxElements = 50_000 // how many elements of a page are searched for signs
)

// ErrFailed is matched by the errors of logins that failed.
var ErrFailed = errors.New("the login failed")

type failure struct{ error }

func (e *failure) Is(target error) bool { return target == ErrFailed }
func (e *failure) Unwrap() error        { return e.error }

// Config is what a session works with.
type Config struct {
	Login   *Login
	Keeper  cookies.Keeper    // keeps the cookies of the crawl; nil means that it keeps none
	Cookies *cookies.Jar      // the same, if it is the crawl's own; nil: a program keeps them, and they are not saved
	Log     *slog.Logger      // nil means that nothing is logged
	Save    func(text string) // called with the session after each login; nil means that it is not kept
	Saved   string            // what Save was called with last; empty means nothing
}

// Session is the login session of one crawl. It is safe for concurrent use.
type Session struct {
	cfg  Config
	site string // the registrable domain of the login page, or its host

	entering sync.Mutex // held by the goroutine that logs in
	mu       sync.Mutex // guards what follows
	n        uint64     // number of the current session; zero means that there is none
	last     uint64     // number of the latest session
	hadPage  bool       // a page was fetched within the current session
	without  int        // number of sessions in a row without such a page
	names    [2]string  // names of the fields for user and password, by which the form is recognized
	shown    *lru.Cache[string, uint64]
	failed   error // set when no login will work any more
}

// New makes a session, with the cookies of an earlier run if there are any.
func New(cfg Config) (*Session, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	shown, err := lru.New[string, uint64](maxShown)
	if err != nil {
		return nil, err
	}
	s := &Session{cfg: cfg, site: siteOf(cfg.Login.Page.Hostname()), shown: shown}
	if cfg.Saved != "" && cfg.Cookies != nil {
		if err := s.restore(cfg.Saved); err != nil {
			cfg.Log.Info("the session of the earlier run cannot be used, and another one is begun", slog.Any("error", err))
		} else {
			s.n, s.last, s.hadPage = 1, 1, true
		}
	}
	return s, nil
}

func siteOf(host string) string {
	if name, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return name
	}
	return host
}

func (s *Session) covers(u canonical.URL) bool { return siteOf(u.Hostname()) == s.site }

// Enter logs in unless a session exists, by requests through send, and returns the number of the session. For URLs of
// other sites it returns zero: they need no session. The error is that of a login; a failed login is not tried again.
func (s *Session) Enter(ctx context.Context, u canonical.URL, send pipeline.Sender) (uint64, error) {
	if !s.covers(u) {
		return 0, nil
	}
	if n, err := s.state(); n != 0 || err != nil {
		return n, err
	}
	s.entering.Lock()
	defer s.entering.Unlock()
	if n, err := s.state(); n != 0 || err != nil {
		return n, err
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	err := s.login(ctx, send)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	n, err := s.began(err)
	if err != nil {
		return 0, err
	}
	s.cfg.Log.Info("logged in", slog.String("page", s.cfg.Login.Page.String()), slog.Uint64("session", n))
	if s.cfg.Save != nil && s.cfg.Cookies != nil {
		if text, err := s.save(); err == nil {
			s.cfg.Save(text)
		} else {
			s.cfg.Log.Warn("the session cannot be kept: who resumes the crawl logs in anew", slog.Any("error", err))
		}
	}
	return n, nil
}

func (s *Session) began(err error) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = &failure{fmt.Errorf("log in at %s: %w", s.cfg.Login.Page, err)}
		return 0, s.failed
	}
	s.last++
	s.n, s.hadPage = s.last, false
	return s.n, nil
}

func (s *Session) state() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, s.failed
}

// Lost reports whether the response to a URL that was requested in session n shows that the session was over by then.
// In that case the URL is to be requested again.
func (s *Session) Lost(u canonical.URL, n uint64, resp *fetch.Response) bool {
	if n == 0 || resp == nil {
		return false
	}
	why := s.sign(u, resp)
	s.mu.Lock()
	defer s.mu.Unlock()
	if why == "" {
		s.hadPage, s.without = s.hadPage || n == s.n, 0
		return false
	}
	if before, known := s.shown.Get(u.String()); known && before != n {
		return false // it was shown in two sessions, so the page is always like that
	}
	s.shown.Add(u.String(), n)
	if s.n != n { // another worker has noticed the end of the session
		return true
	}
	if s.n = 0; !s.hadPage {
		if s.without++; s.without >= maxWithout {
			s.failed = &failure{fmt.Errorf("log in at %s: no page is within the session after %d logins that succeeded: %s shows %s; look at success and lost in the file of --login", s.cfg.Login.Page, maxWithout, u, why)}
		}
	}
	s.cfg.Log.Info("the session is over, and another one is begun", slog.String("url", u.String()), slog.String("sign", why), slog.Uint64("session", n))
	return true
}

// sign returns the sign of a lost session that a response shows; empty if it shows none.
func (s *Session) sign(u canonical.URL, resp *fetch.Response) string {
	l := s.cfg.Login
	own := path(u.String()) == path(l.Page.String())
	switch {
	case resp.Status == http.StatusUnauthorized:
		return "status 401"
	case resp.Location != "" && resp.Status/100 == 3 && !own:
		to, err := u.Resolve(resp.Location)
		if err == nil && path(to.String()) == path(l.Page.String()) {
			return "a redirect to the login page"
		}
	}
	page := lazyPage{s: s, url: u, resp: resp}
	for _, sign := range l.Lost {
		if s.holds(sign, &page) {
			return sign.text
		}
	}
	if resp.Status/100 != 2 || !page.isHTML() {
		return ""
	}
	s.mu.Lock()
	names := s.names
	s.mu.Unlock()
	if names[1] != "" && !own && bytes.Contains(resp.Body, []byte(names[1])) {
		for _, f := range page.forms() {
			if user, password := f.Login(); user == names[0] && password == names[1] {
				return "the login form"
			}
		}
	}
	if l.EveryPage {
		for _, sign := range l.Success {
			if sign.selector != nil && !s.holds(sign, &page) {
				return "no " + sign.text
			}
		}
	}
	return ""
}

// path returns a URL without query, fragment and trailing slash.
func path(u string) string {
	u, _, _ = strings.Cut(u, "#")
	u, _, _ = strings.Cut(u, "?")
	return strings.TrimSuffix(u, "/")
}

// lazyPage is a page whose tree is built at the first use.
type lazyPage struct {
	s    *Session
	url  canonical.URL
	resp *fetch.Response
	doc  *dom.Document
}

func (p *lazyPage) isHTML() bool {
	return p.resp.ContentType == "" || mediatype.IsHTML(p.resp.ContentType)
}

func (p *lazyPage) document() *dom.Document {
	if p.doc == nil {
		var body []byte
		if p.isHTML() {
			body = extract.UTF8(p.resp.Body, p.resp.Charset)
		}
		p.doc = dom.ParseWithin(body, maxElements, effort.New(context.Background(), effort.Steps(len(body), 1<<26), nil, p.resp.SentAt))
	}
	return p.doc
}

func (p *lazyPage) forms() []*forms.Form {
	base := p.url
	for n := range p.document().Root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "base" {
			if href, ok := dom.Attr(n, "href"); ok {
				if u, err := p.url.Resolve(href); err == nil {
					base = u
				}
				break
			}
		}
	}
	page := forms.Page{Document: p.document(), URL: p.url, Base: base, Charset: p.resp.Charset}
	return page.All()
}

func (p *lazyPage) has(sel *fields.Selector) *html.Node { return first(sel, p.document()) }

func first(sel *fields.Selector, d *dom.Document) (found *html.Node) {
	sel.Each(d.Root, d.Budget, func(n *html.Node) bool { found = n; return false })
	return found
}

func (s *Session) holds(sign Sign, p *lazyPage) bool {
	switch {
	case sign.selector != nil:
		return p.has(sign.selector) != nil
	case sign.url != nil:
		return sign.url.MatchString(p.url.String())
	case s.cfg.Keeper != nil:
		return cookies.Has(s.cfg.Keeper, cookies.Origin{TLS: p.url.Scheme() == "https", Host: p.url.Hostname(), Path: p.url.Path()}, sign.cookie)
	}
	return false
}

// login fetches the page, submits the form, and checks where that leads.
func (s *Session) login(ctx context.Context, send pipeline.Sender) error {
	l := s.cfg.Login
	page, err := s.get(ctx, send, l.Page, fetch.Request{URL: l.Page.String()})
	if err != nil {
		return err
	}
	if page.resp.Status/100 != 2 {
		return fmt.Errorf("the page has status %d", page.resp.Status)
	}
	form, err := s.form(page)
	if err != nil {
		return err
	}
	values := map[string]string{}
	user, password := form.Login()
	if l.User != "" {
		if user == "" {
			return fmt.Errorf("user and password have no place in the form, which has %s: give fields by their names", strings.Join(form.Names(), ", "))
		}
		values[user], values[password] = l.User, l.Password
	}
	maps.Copy(values, l.Fields)
	var press *html.Node
	if l.Press != nil {
		if press = page.has(l.Press); press == nil || !form.Is(press) {
			return errors.New("press selects no button of the form")
		}
	}
	sub, err := form.Submit(values, press)
	if err != nil {
		return err
	}
	if err := s.fits(page.url, sub); err != nil {
		return err
	}
	s.mu.Lock()
	s.names = [2]string{user, password}
	s.mu.Unlock()
	page, err = s.get(ctx, send, sub.URL, fetch.Request{
		URL: sub.URL.String(), Method: sub.Method, Payload: sub.Body,
		Header: http.Header{"Content-Type": {sub.ContentType}, "Referer": {path(page.url.String())}},
	})
	if err != nil {
		return err
	}
	for _, sign := range l.Success {
		if !s.holds(sign, page) {
			return fmt.Errorf("%s does not hold at %s (status %d), where the login has led: either what was filled in is wrong, or success is", sign, path(page.url.String()), page.resp.Status)
		}
	}
	return nil
}

// form returns the form that the file selects, or the only one that looks like a login.
func (s *Session) form(page *lazyPage) (*forms.Form, error) {
	all := page.forms()
	if sel := s.cfg.Login.Form; sel != nil {
		if n := page.has(sel); n != nil {
			for _, f := range all {
				if f.Is(n) {
					return f, nil
				}
			}
		}
		return nil, errors.New("form selects no form of the page")
	}
	var found []*forms.Form
	for _, f := range all {
		if user, _ := f.Login(); user != "" {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("the page has %d forms with a password: say which by form: css:SELECTOR", len(found))
	}
	return nil, fmt.Errorf("none of the %d forms of the page has a user and one password: say which by form: css:SELECTOR, or give the page that has it", len(all))
}

// fits returns an error if the form would send secrets where nobody would expect them.
func (s *Session) fits(page canonical.URL, sub *forms.Submission) error {
	switch {
	case sub.Method != http.MethodPost:
		return errors.New("the form is sent by GET, which would put what is filled in into a URL")
	case page.Scheme() == "https" && sub.URL.Scheme() != "https":
		return fmt.Errorf("the form goes to %s, without encryption", path(sub.URL.String()))
	case siteOf(sub.URL.Hostname()) != s.site:
		return fmt.Errorf("the form goes to another site, %s", sub.URL.Host())
	}
	return nil
}

// get sends a request and follows redirects. It keeps the body of the response.
func (s *Session) get(ctx context.Context, send pipeline.Sender, u canonical.URL, req fetch.Request) (*lazyPage, error) {
	for range maxHops {
		resp, err := send(ctx, u, req)
		if err != nil {
			return nil, err
		}
		body := bytes.Clone(resp.Body)
		resp.Release()
		resp.Body = body
		if resp.Location == "" || resp.Status/100 != 3 {
			return &lazyPage{s: s, url: u, resp: resp}, nil
		}
		to, err := u.Resolve(resp.Location)
		if err != nil {
			return nil, fmt.Errorf("a redirect from %s leads to no URL", path(u.String()))
		}
		keeps := resp.Status == http.StatusTemporaryRedirect || resp.Status == http.StatusPermanentRedirect
		if keeps && len(req.Payload) > 0 {
			if err := s.fits(u, &forms.Submission{Method: req.Method, URL: to}); err != nil {
				return nil, err
			}
			req.URL = to.String()
		} else {
			req = fetch.Request{URL: to.String()}
		}
		u = to
	}
	return nil, fmt.Errorf("more than %d redirects", maxHops)
}
