package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
)

// reason is why a request was refused, as metrics count it.
type reason string

// The reasons.
const (
	reasonNone   reason = ""
	reasonHost   reason = "host"   // 421
	reasonOrigin reason = "origin" // 403
	reasonToken  reason = "token"  // 401
	reasonRate   reason = "rate"   // 429
	reasonType   reason = "content_type"
	reasonFull   reason = "streams" // as many listen as may
)

// reasons are all that are counted.
func reasons() []reason {
	return []reason{reasonHost, reasonOrigin, reasonToken, reasonRate, reasonType, reasonFull}
}

// door is what stands in front of everything.
type door struct {
	cfg      *Config
	metrics  *metrics
	token    [sha256.Size]byte // of Config.Token
	origin   *http.CrossOriginProtection
	sessions *sessions
	admitter *admission.Admitter
	limit    func(http.Handler) http.Handler
	leftOut  atomic.Int64 // refusals that the log was not told of since the last that it was
}

// maxClients is how many clients are counted each for itself. It is a tenth of a megabyte
// or two, and more people than ever look at one crawl.
const maxClients = 1 << 10

func newDoor(cfg *Config, m *metrics) (*door, error) {
	d := &door{cfg: cfg, metrics: m, token: sha256.Sum256([]byte(cfg.Token)), origin: http.NewCrossOriginProtection(), sessions: newSessions(cfg.Clock, cfg.Address)}
	registry, err := admission.NewRegistry(plans()...)
	if err != nil {
		return nil, err
	}
	store, err := memory.New(memory.Config{MaxKeys: maxClients, Clock: cfg.Clock})
	if err != nil {
		return nil, err
	}
	set, err := admission.NewRuleSet(admission.RuleSetConfig{
		Registry: registry, Clock: cfg.Clock,
		Keys:  map[string]admission.KeyFunc{clientKey: soundClient()},
		Costs: map[string]func(*http.Request) int64{planReads: costOf(wrongRead), planOrders: costOf(wrongOrder)},
	}, rules(), nil)
	if err != nil {
		return nil, err
	}
	if d.admitter, err = admission.New(admission.Config{Registry: registry, Repository: store}); err != nil {
		return nil, err
	}
	d.limit, err = admission.Middleware(admission.MiddlewareConfig{Admitter: d.admitter, Rules: set, Deny: d.deny})
	return d, err
}

// verdict is what the headers of a request say about it.
type verdict struct {
	why    reason // none: it is sound
	status int
	detail string
}

// verdictKey is where the context of a request has its verdict.
type verdictKey struct{}

func verdictOf(r *http.Request) verdict {
	v, _ := r.Context().Value(verdictKey{}).(verdict)
	return v
}

// around is next behind the door.
func (d *door) around(next http.Handler) http.Handler {
	behind := d.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := verdictOf(r); v.why != reasonNone {
			if v.why == reasonToken && wantsPage(r) {
				http.Redirect(w, r, loginPath, http.StatusSeeOther)
				return
			}
			if v.why == reasonToken {
				w.Header().Set("WWW-Authenticate", `Bearer realm="treadlight"`)
			}
			d.turnAway(w, r, v)
			return
		}
		if v := d.content(r); v.why != reasonNone {
			d.turnAway(w, r, v)
			return
		}
		next.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guardHeaders(w.Header())
		behind.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), verdictKey{}, d.judge(r))))
	})
}

// guardHeaders has browsers make nothing of an answer but what it is. Everything here is
// of one moment, and URLs of a crawl are no business of a cache.
func guardHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// judge looks at the headers of a request. It changes nothing.
func (d *door) judge(r *http.Request) verdict {
	switch {
	case !d.cfg.Address.answersTo(r.Host):
		return verdict{reasonHost, http.StatusMisdirectedRequest, "ask for localhost or the IP address; this is not known by the name in Host"}
	case d.origin.Check(r) != nil || foreignRead(r):
		return verdict{reasonOrigin, http.StatusForbidden, "a page of another site asked for this"}
	case d.cfg.Token != "" && !isOpen(r.URL.Path) && !d.hasToken(r) && !d.sessions.allows(r):
		return verdict{reasonToken, http.StatusUnauthorized, `give the token as "Authorization: Bearer TOKEN"`}
	}
	return verdict{}
}

// foreignRead reports whether the page of another site reads. It could not see the answer,
// but take up the places of those who may. To follow a link from elsewhere is no such thing.
func foreignRead(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// isHealth reports whether a path is for those who keep processes alive, who have no token.
func isHealth(path string) bool { return path == "/healthz" || path == "/readyz" }

func (d *door) hasToken(r *http.Request) bool {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return d.isToken(strings.TrimSpace(shown)) && strings.EqualFold(scheme, "Bearer")
}

// isToken compares digests, so that the time does not tell how much of a token was right.
func (d *door) isToken(shown string) bool {
	digest := sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(digest[:], d.token[:]) == 1
}

// content looks at what an order is written in.
func (d *door) content(r *http.Request) verdict {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || isJSON(r.Header.Get("Content-Type")) || isForm(r) {
		return verdict{}
	}
	return verdict{reasonType, http.StatusUnsupportedMediaType, `give the header "Content-Type: application/json"`}
}

// deny answers who comes too often.
func (d *door) deny(w http.ResponseWriter, r *http.Request, denial admission.Denial) {
	if denial.Status != http.StatusTooManyRequests {
		refuse(w, denial.Status, "nobody knows how often you came; try again later")
		return
	}
	d.turnAway(w, r, verdict{reasonRate, denial.Status, "come again when Retry-After says"})
}

// turnAway refuses a request, counts it and logs it.
func (d *door) turnAway(w http.ResponseWriter, r *http.Request, v verdict) {
	d.count(r, v)
	refuse(w, v.status, v.detail)
}

// count counts and logs a refusal.
func (d *door) count(r *http.Request, v verdict) {
	d.metrics.refused.WithLabelValues(string(v.why)).Inc()
	d.note(r, v)
}

// note logs a refusal, unless there are so many that they would fill the log.
func (d *door) note(r *http.Request, v verdict) {
	ctx := context.WithoutCancel(r.Context())
	if res, err := d.admitter.Allow(ctx, planLog, []string{planLog}, 1); err == nil && !res.Allowed {
		d.leftOut.Add(1)
		return
	}
	d.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a request to the console was refused",
		slog.String("reason", string(v.why)), slog.Int("status", v.status), slog.String("who", r.RemoteAddr),
		slog.String("method", r.Method), slog.String("path", shortened(r.URL.Path)), slog.Int64("left_out", d.leftOut.Swap(0)))
}

// shortened is the part of a text from elsewhere that a line of the log has room for.
func shortened(s string) string {
	const enough = 100 // bytes: more than any path that there is
	if len(s) > enough {
		return strings.ToValidUTF8(s[:enough], "") + "…"
	}
	return s
}
