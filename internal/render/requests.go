package render

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/scope"

	ourfetch "github.com/treadlight/crawl/internal/fetch"
)

const (
	maxRequests = 250 // of a page, not counting those that are left out
	maxReloads  = 3
	maxPayload  = 1 << 20 // bytes
)

// reply is the response that a page gets for a request.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// refusal is why a request gets no response. If it is aborted, the page logs no error.
type refusal struct {
	reason network.ErrorReason
	why    string
}

// answer answers a request of the browser, from whichever page, frame or worker it comes. None is passed on to the
// network.
func (b *browser) answer(v *view, e *fetch.EventRequestPaused) {
	if local(e.Request.URL) {
		_, _ = chromedp.CallBrowser(b.ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID})
		return
	}
	var r *reply
	no := &refusal{network.ErrorReasonAborted, "no page asks for it"}
	if v != nil {
		defer v.done(e.RequestID)
		if r, no = v.reply(e); no != nil && no.why != "" {
			b.r.cfg.Log.Debug("a page does not get what it asks for", "page", v.of.URL.String(), "url", e.Request.URL, "reason", no.why)
		}
		v.count(no)
	}
	ctx, cancel := context.WithTimeout(b.ctx, answerTime) // otherwise the end of the page would wait for a browser that hangs
	defer cancel()
	if r == nil {
		_, _ = chromedp.CallBrowser(ctx, fetch.FailRequest, fetch.FailRequestParams{RequestID: e.RequestID, ErrorReason: no.reason})
		return
	}
	p := fetch.FulfillRequestParams{RequestID: e.RequestID, ResponseCode: int64(r.status), Body: r.body}
	for name, values := range r.header {
		if slices.Contains(ofConnection, name) {
			continue
		}
		for _, value := range values {
			p.ResponseHeaders = append(p.ResponseHeaders, &fetch.HeaderEntry{Name: name, Value: strings.ToValidUTF8(value, "?")})
		}
	}
	if _, err := chromedp.CallBrowser(ctx, fetch.FulfillRequest, p); err != nil && ctx.Err() == nil {
		_, _ = chromedp.CallBrowser(ctx, fetch.FailRequest, fetch.FailRequestParams{RequestID: e.RequestID, ErrorReason: network.ErrorReasonFailed})
	}
}

// local reports whether a URL refers to data that the page itself has made.
func local(u string) bool { return strings.HasPrefix(u, "blob:") || strings.HasPrefix(u, "data:") }

// ofConnection lists header fields of responses that concern the connection, or would make the browser send requests of
// its own.
var ofConnection = []string{
	"Content-Encoding", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Alt-Svc", "Strict-Transport-Security",
	"Report-To", "Reporting-Endpoints", "Nel", "Link", "Speculation-Rules", "Trailer", "Content-Disposition",
}

// begin counts a request of the page, which ends with done. It returns false if the page is over.
func (v *view) begin() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return false
	}
	v.total++
	v.answers.Add(1)
	return true
}

// ask counts a request that is passed to the crawl. It returns false if the page has made too many.
func (v *view) ask(e *fetch.EventRequestPaused) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked >= maxRequests {
		return false
	}
	if v.pending == nil {
		v.pending = map[fetch.RequestID]bool{}
	}
	v.asked++
	v.pending[e.RequestID] = e.ResourceType == network.ResourceTypeXHR || e.ResourceType == network.ResourceTypeFetch
	return true
}

func (v *view) done(id fetch.RequestID) {
	defer v.answers.Done()
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.pending, id)
	v.active = now()
}

func (v *view) count(no *refusal) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case no == nil:
		v.out.Note.Requests++
	case no.why != "":
		v.out.Note.Refused++
	}
}

// reply returns the response for a request of the page, or why there is none.
func (v *view) reply(e *fetch.EventRequestPaused) (*reply, *refusal) {
	u, err := canonical.Parse(e.Request.URL)
	if err != nil {
		return nil, &refusal{network.ErrorReasonBlockedByClient, err.Error()}
	}
	if e.ResourceType == network.ResourceTypeDocument {
		if r, no, own := v.document(e, u); own {
			return r, no
		}
	}
	if why := v.leftOut(e, u); why != "" {
		return nil, &refusal{network.ErrorReasonBlockedByClient, why}
	}
	if !v.ask(e) {
		return nil, &refusal{network.ErrorReasonBlockedByClient, fmt.Sprintf("a page has at most %d requests", maxRequests)}
	}
	s := &rendering.Subrequest{URL: u, Code: static(e.ResourceType)}
	s.Request = ourfetch.Request{URL: e.Request.URL, Method: e.Request.Method, Anonymous: e.Request.Method == http.MethodOptions}
	s.Header, s.Cookie = v.header(e, u)
	if s.Method == http.MethodGet {
		s.Method = ""
	}
	for _, part := range e.Request.PostDataEntries {
		if s.Payload = append(s.Payload, part.Bytes...); len(s.Payload) > maxPayload {
			return nil, &refusal{network.ErrorReasonBlockedByClient, fmt.Sprintf("more than %d bytes are to be sent", maxPayload)}
		}
	}
	ask := func() (*reply, error) {
		resp, err := v.of.Ask(v.ctx, s)
		defer resp.Release()
		if err != nil { // a part of the response may have arrived
			return nil, err
		}
		return &reply{resp.Status, resp.Header, slices.Clone(resp.Body)}, nil
	}
	var r *reply
	if s.Code && s.Method == "" {
		r, err = v.b.r.cache.get(v.ctx, scope.SiteOf(v.of.URL)+" "+e.Request.URL, ask)
	} else {
		r, err = ask()
	}
	if err != nil {
		reason := network.ErrorReasonFailed
		if _, ok := err.(*rendering.RefusedError); ok { //nolint:errorlint // it is never wrapped
			reason = network.ErrorReasonBlockedByClient
		}
		return nil, &refusal{reason, err.Error()}
	}
	return r, nil
}

// document answers requests for documents. The page itself was fetched before. If it navigates elsewhere, the URL
// becomes a link. Documents of frames are not answered here, and own is false: they are fetched.
func (v *view) document(e *fetch.EventRequestPaused, u canonical.URL) (r *reply, no *refusal, own bool) {
	v.mu.Lock()
	main, popup := string(e.FrameID) == string(v.id), v.popups[target.ID(e.FrameID)]
	serve := main && e.Request.Method == http.MethodGet && (v.served == 0 || u == v.of.URL && v.served < maxReloads)
	if serve {
		v.served++
	}
	press := v.press
	v.mu.Unlock()
	switch {
	case serve:
		h := v.of.Resp.Header.Clone()
		h.Set("Content-Type", mediaType(v.of.Resp))
		return &reply{status: v.of.Resp.Status, header: h, body: v.of.Resp.Body}, nil, true
	case !main && !popup:
		return nil, nil, false
	case e.Request.Method == http.MethodGet || press:
		v.note(e.Request.URL)
	}
	return nil, &refusal{network.ErrorReasonAborted, ""}, true
}

// leftOut returns why a request is not made. Empty means that it is made.
func (v *view) leftOut(e *fetch.EventRequestPaused, u canonical.URL) string {
	cfg := &v.b.r.cfg
	pictured := cfg.Screenshots != ""
	field := func(name string) string { s, _ := e.Request.Headers[name].(string); return s }
	if then := field("Access-Control-Request-Method"); e.Request.Method == http.MethodOptions && then != "" {
		r := *e.Request // a preflight is made if the request after it is
		r.Method = then
		e = &fetch.EventRequestPaused{Request: &r, ResourceType: network.ResourceTypeFetch}
	}
	v.mu.Lock()
	press := v.press
	v.mu.Unlock()
	switch e.ResourceType {
	case network.ResourceTypeImage:
		if !pictured {
			return "images are left out"
		}
	case network.ResourceTypeFont:
		if !pictured {
			return "fonts are left out"
		}
	case network.ResourceTypeMedia, network.ResourceTypeTextTrack:
		return "media are left out"
	case network.ResourceTypePing, network.ResourceTypeCSPViolationReport, network.ResourceTypePrefetch, network.ResourceTypeManifest,
		network.ResourceTypeSignedExchange, network.ResourceTypeEventSource, network.ResourceTypePreflight:
		if press {
			v.note(e.Request.URL)
		}
		return "it is of no use to a page that is read"
	}
	data := e.ResourceType == network.ResourceTypeXHR || e.ResourceType == network.ResourceTypeFetch
	switch method := e.Request.Method; {
	case field("Sec-Purpose") != "" || field("Purpose") == "prefetch" || strings.Contains(field("Accept"), "text/event-stream"):
		return "it is of no use to a page that is read"
	case e.ResourceType == network.ResourceTypeOther && strings.HasSuffix(u.Path(), "/favicon.ico"):
		return "images are left out"
	case tracks(u.Hostname()) && scope.SiteOf(u) != scope.SiteOf(v.of.URL):
		return "trackers are left out"
	case method == http.MethodGet || method == http.MethodHead:
	case method == http.MethodPost && data && !press && scope.SiteOf(u) == scope.SiteOf(v.of.URL) && (!e.Request.HasPostData || len(e.Request.PostDataEntries) > 0):
		// Many pages load their data this way.
	default:
		if cfg.Press {
			v.note(e.Request.URL)
		}
		return method + " may change something"
	}
	return ""
}

// static reports whether a resource is the same for all pages, and may come from any host.
func static(t network.ResourceType) bool {
	switch t {
	case network.ResourceTypeScript, network.ResourceTypeStylesheet, network.ResourceTypeImage, network.ResourceTypeFont:
		return true
	}
	return false
}

// dropped lists header fields that the crawl's client sets itself, or that identify the browser.
var dropped = []string{"User-Agent", "Accept-Encoding", "Host", "Connection", "Content-Length", "Upgrade-Insecure-Requests", "Te", "Trailer", "Upgrade", "Expect", "Proxy-Authorization", "Cookie"}

// header returns the header fields that the page has set for a request, and its cookies.
func (v *view) header(e *fetch.EventRequestPaused, u canonical.URL) (h http.Header, jar string) {
	h = make(http.Header)
	for name, value := range e.Request.Headers {
		text, _ := value.(string)
		if key := http.CanonicalHeaderKey(name); !slices.Contains(dropped, key) && !strings.HasPrefix(key, "Sec-") {
			h.Set(key, text)
		} else if key == "Cookie" {
			jar = text
		}
	}
	if scope.SiteOf(u) != scope.SiteOf(v.of.URL) {
		return h, "" // another site must not recognize the visitor of this one
	}
	return h, v.ownCookies(jar)
}
