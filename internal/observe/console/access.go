package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/observe/endpoint"
)

type reason string

// The reasons for refusing a request.
const (
	reasonNone   reason = ""
	reasonHost   reason = "host"   // 421
	reasonOrigin reason = "origin" // 403
	reasonToken  reason = "token"  // 401
	reasonRate   reason = "rate"   // 429
	reasonType   reason = "content_type"
	reasonFull   reason = "streams" // too many clients listen
)

func reasons() []reason {
	return []reason{reasonHost, reasonOrigin, reasonToken, reasonRate, reasonType, reasonFull}
}

type guard struct {
	cfg       *Config
	metrics   *metrics
	token     [sha256.Size]byte // the digest of Config.Token
	origin    *http.CrossOriginProtection
	sessions  *sessions
	admitter  *admission.Admitter
	limit     func(http.Handler) http.Handler
	denyLogin func(http.ResponseWriter) // shows the form again, with a request to wait
	leftOut   atomic.Int64              // refusals not logged since the last one that was
}

// maxClients is how many clients are counted separately. They take a tenth of a megabyte or two.
const maxClients = 1 << 10

func newGuard(cfg *Config, m *metrics) (*guard, error) {
	g := &guard{cfg: cfg, metrics: m, token: sha256.Sum256([]byte(cfg.Token)), origin: http.NewCrossOriginProtection(), sessions: newSessions(cfg.Clock, cfg.Address)}
	store, err := memory.New(memory.Config{MaxKeys: maxClients, Clock: cfg.Clock})
	if err != nil {
		return nil, err
	}
	set, err := admission.NewRuleSet(admission.RuleSetConfig{
		Clock: cfg.Clock,
		Keys:  map[string]admission.KeyFunc{clientKey: allowedClient()},
		Costs: map[string]func(*http.Request) int64{planReads: costOf(wrongRead), planOrders: costOf(wrongOrder)},
	}, plans(), rules(), nil)
	if err != nil {
		return nil, err
	}
	if g.admitter, err = admission.New(admission.Config{Rules: set, Repository: store}); err != nil {
		return nil, err
	}
	g.limit, err = admission.Middleware(admission.MiddlewareConfig{Admitter: g.admitter, Deny: g.deny})
	return g, err
}

type refusal struct {
	why    reason // empty: the request is admitted
	status int
	detail string
}

type refusalKey struct{}

func refusalOf(r *http.Request) refusal {
	v, _ := r.Context().Value(refusalKey{}).(refusal)
	return v
}

func (g *guard) wrap(next http.Handler) http.Handler {
	behind := g.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := refusalOf(r); v.why != reasonNone {
			if v.why == reasonToken && wantsPage(r) {
				http.Redirect(w, r, loginPath, http.StatusSeeOther)
				return
			}
			if v.why == reasonToken {
				w.Header().Set("WWW-Authenticate", `Bearer realm="treadlight"`)
			}
			g.refuseAndLog(w, r, v)
			return
		}
		if v := g.content(r); v.why != reasonNone {
			g.refuseAndLog(w, r, v)
			return
		}
		next.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answerHeaders(w.Header())
		behind.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), refusalKey{}, g.check(r))))
	})
}

// answerHeaders sets headers that keep browsers from guessing the type of a response, and caches from storing it:
// everything here is of one moment.
func answerHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func (g *guard) check(r *http.Request) refusal {
	switch {
	case !g.cfg.Address.AnswersTo(r.Host):
		return refusal{reasonHost, http.StatusMisdirectedRequest, "ask for localhost or the IP address; this is not known by the name in Host"}
	case g.origin.Check(r) != nil || foreignRead(r):
		return refusal{reasonOrigin, http.StatusForbidden, "a page of another site asked for this"}
	case g.cfg.Token != "" && !isOpen(r.URL.Path) && !g.hasToken(r) && !g.sessions.allows(r):
		return refusal{reasonToken, http.StatusUnauthorized, `give the token as "Authorization: Bearer TOKEN"`}
	}
	return refusal{}
}

// foreignRead reports whether a page of another site reads this. It could not see the response, but would use up the
// budget of other clients. Following a link from another site is no foreign read.
func foreignRead(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// isHealth reports whether the path is a health check, which needs no token.
func isHealth(path string) bool { return path == "/healthz" || path == "/readyz" }

func (g *guard) hasToken(r *http.Request) bool {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return g.isToken(strings.TrimSpace(shown)) && strings.EqualFold(scheme, "Bearer")
}

// isToken compares digests, so that the time it takes does not tell how much of a token was right.
func (g *guard) isToken(shown string) bool {
	digest := sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(digest[:], g.token[:]) == 1
}

func (g *guard) content(r *http.Request) refusal {
	if reads(r) || isMedia(r.Header.Get("Content-Type"), "application/json") || isForm(r) {
		return refusal{}
	}
	return refusal{reasonType, http.StatusUnsupportedMediaType, `give the header "Content-Type: application/json"`}
}

func (g *guard) deny(w http.ResponseWriter, r *http.Request, denial admission.Denial) {
	if denial.Status != http.StatusTooManyRequests {
		refuse(w, denial.Status, "nobody knows how often you came; try again later")
		return
	}
	v := refusal{reasonRate, denial.Status, "come again when Retry-After says"}
	if isLogin(r) { // a person reads the answer
		g.count(r, v)
		g.denyLogin(w)
		return
	}
	g.refuseAndLog(w, r, v)
}

func (g *guard) refuseAndLog(w http.ResponseWriter, r *http.Request, v refusal) {
	g.count(r, v)
	refuse(w, v.status, v.detail)
}

// count counts a refusal, and logs it unless there are so many that they would fill the log.
func (g *guard) count(r *http.Request, v refusal) {
	g.metrics.refused.WithLabelValues(string(v.why)).Inc()
	ctx := context.WithoutCancel(r.Context())
	if res, err := g.admitter.Allow(ctx, planLog, []string{planLog}, 1); err == nil && !res.Allowed {
		g.leftOut.Add(1)
		return
	}
	g.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a request to the console was refused",
		slog.String("reason", string(v.why)), slog.Int("status", v.status), slog.String("who", r.RemoteAddr),
		slog.String("method", r.Method), slog.String("path", shortened(r.URL.Path)), slog.Int64("left_out", g.leftOut.Swap(0)))
}

// shortened cuts a text from outside for a line of the log.
func shortened(s string) string {
	const enough = 100 // bytes: longer than any path that exists
	if len(s) > enough {
		return strings.ToValidUTF8(s[:enough], "") + "…"
	}
	return s
}

// plans are the limits of clients. A person clicks, a page polls once a second and Prometheus scrapes every few
// seconds: reads allow a page with ten panels to open, and commands a person in a hurry.
func plans() []admission.Plan {
	return []admission.Plan{
		{Name: planReads, Capacity: 50, TokensPerSecond: 20},
		{Name: planOrders, Capacity: 10, TokensPerSecond: 1},
		{Name: planLog, Capacity: 20, TokensPerSecond: 1},
	}
}

func rules() []admission.Rule {
	return []admission.Rule{
		{Name: planReads, Path: "/**", Methods: []string{http.MethodGet}, Key: clientKey, CostBy: planReads, Plans: []string{planReads}},
		{Name: planOrders, Path: "/**", Key: clientKey, CostBy: planOrders, Plans: []string{planOrders}},
	}
}

// Names of the plans, their rules and the functions of their costs.
const (
	planReads  = "reads"
	planOrders = "orders"
	planLog    = "log" // of refusals
	clientKey  = "client"
)

// costs is what a request with a wrong token costs: two at once and then one in a few
// seconds, at which no secret of 16 bytes is guessed.
const (
	wrongRead  = 25
	wrongOrder = 5
)

func allowedClient() admission.KeyFunc {
	address := admission.ClientIP()
	return func(r *http.Request) (string, error) {
		if refusalOf(r).why != reasonNone || isLogin(r) {
			return "", nil // by the address alone
		}
		return address(r)
	}
}

// costOf returns the cost of a request: wrong if it has a wrong token, or may have one in its body.
func costOf(wrong int64) func(*http.Request) int64 {
	return func(r *http.Request) int64 {
		if refusalOf(r).why == reasonToken && !wantsPage(r) || isLogin(r) {
			return wrong
		}
		return 1
	}
}

const (
	// maxSessions is how many browsers may be logged in; another one logs the oldest out.
	maxSessions = 64
	// sessionTime is how long a login lasts.
	sessionTime = 12 * time.Hour
)

// sessions are the browsers that have shown the token. Their cookie is a random number and not the token, because a
// browser sends the cookies of this address to every port of it.
type sessions struct {
	clk  clock.Clock
	name string                                   // of the cookie
	ends *lru.Cache[[sha256.Size]byte, time.Time] // end of each session, by digest, so that the time of a lookup tells nothing
}

// newSessions returns no sessions. The cookie's name has the port, because two crawls on one computer share a browser's
// cookies.
func newSessions(clk clock.Clock, at endpoint.Address) *sessions {
	ends, err := lru.New[[sha256.Size]byte, time.Time](maxSessions)
	if err != nil {
		panic(err) // only of a size below one
	}
	return &sessions{clk: clk, name: "treadlight_" + strconv.Itoa(int(at.Port())), ends: ends}
}

func (s *sessions) open() string {
	id := rand.Text()
	s.ends.Add(sha256.Sum256([]byte(id)), s.clk.Now().Add(sessionTime))
	return id
}

func (s *sessions) digest(r *http.Request) (d [sha256.Size]byte) {
	if c, err := r.Cookie(s.name); err == nil {
		d = sha256.Sum256([]byte(c.Value))
	}
	return d
}

func (s *sessions) knows(r *http.Request) bool {
	end, ok := s.ends.Get(s.digest(r))
	return ok && s.clk.Now().Before(end)
}

func (s *sessions) close(r *http.Request) { s.ends.Remove(s.digest(r)) }

func (s *sessions) allows(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	// Without a site it is a browser that does not say so here; the guard has compared its Origin.
	return (reads(r) || site == "same-origin" || site == "" && r.Header.Get("Origin") != "") && s.knows(r)
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// cookie is the cookie of a session; with an empty id it deletes the cookie. It is Secure if the page's own address
// says that a proxy in front speaks TLS.
func (s *sessions) cookie(r *http.Request, id string) *http.Cookie {
	c := &http.Cookie{
		Name: s.name, Value: id, Path: "/", MaxAge: int(sessionTime / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	}
	if id == "" {
		c.MaxAge = -1
	}
	return c
}

// The paths of the pages that need no token, and of those that send who has none to log in.
const (
	loginPath  = "/login"
	logoutPath = "/logout"
	assetsPath = "/assets/"
	hostsPath  = "/hosts/"
)

func isOpen(path string) bool {
	return isHealth(path) || path == loginPath || path == logoutPath || strings.HasPrefix(path, assetsPath)
}

// isLogin reports whether a request has a token in its body. It costs as much as one with a wrong token, since its
// headers do not tell whether the token is right.
func isLogin(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == loginPath }

func wantsPage(r *http.Request) bool {
	return reads(r) && r.Header.Get("Authorization") == "" &&
		(r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, hostsPath))
}

func isForm(r *http.Request) bool {
	return (r.URL.Path == loginPath || r.URL.Path == logoutPath) && isMedia(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
}
