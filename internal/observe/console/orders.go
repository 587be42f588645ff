package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

// maxBody is the longest body of a command, in bytes. It has room for a URL of eight thousand, which is the most that
// servers take.
const maxBody = 16 << 10

// order is a command of an operator, for the crawl or for a host.
type order struct {
	name string
	host bool
	run  func(ctx context.Context, c *Crawl, is *done, said *body) error
}

var allOrders = []order{
	{"pause", false, func(_ context.Context, c *Crawl, _ *done, _ *body) error { return present(c.Pause()) }},
	{"resume", false, func(_ context.Context, c *Crawl, _ *done, _ *body) error { return present(c.Resume()) }},
	{"stop", false, func(_ context.Context, c *Crawl, _ *done, _ *body) error {
		c.Stop()
		return nil
	}},
	{"checkpoint", false, func(ctx context.Context, c *Crawl, _ *done, _ *body) error {
		if c.Checkpoint == nil {
			return &failure{http.StatusConflict, "the crawl is not kept: begin it with --state to have checkpoints"}
		}
		return c.Checkpoint(ctx)
	}},
	{"seeds", false, func(_ context.Context, c *Crawl, is *done, said *body) (err error) {
		if said.URL == "" {
			return &failure{http.StatusUnprocessableEntity, `the URL is missing: write {"url": "https://example.com/"}`}
		}
		is.URL, err = c.AddSeed(said.URL)
		return aboutInput(err)
	}},
	{"scope", false, func(_ context.Context, c *Crawl, _ *done, said *body) error {
		if said.Include == nil || said.Exclude == nil {
			return &failure{http.StatusUnprocessableEntity, `both lists are replaced: write {"include": [], "exclude": ["/private/"]}; /api/controls has those in force`}
		}
		return aboutInput(c.SetScope(said.Include, said.Exclude))
	}},
	{"block", true, func(_ context.Context, c *Crawl, is *done, _ *body) error {
		is.noteUnknown(c)
		return aboutInput(c.Block(is.Host))
	}},
	{"unblock", true, func(_ context.Context, c *Crawl, is *done, _ *body) error {
		if !slices.Contains(c.Controls().Blocked, ratelimit.Domain(is.Host)) {
			is.Note = "the host was not blocked"
		}
		return aboutInput(c.Unblock(is.Host))
	}},
	{"ceiling", true, func(_ context.Context, c *Crawl, is *done, said *body) error {
		if said.MaxRPS == nil {
			return &failure{http.StatusUnprocessableEntity, `the rate is missing: write {"max_rps": 5} for 5 requests per second, or 0 for what the settings say`}
		}
		is.noteUnknown(c)
		return aboutInput(c.SetCeiling(is.Host, *said.MaxRPS))
	}},
}

type done struct {
	Order string `json:"order"`
	URL   string `json:"url,omitempty"`  // of a seed, in canonical form
	Host  string `json:"host,omitempty"` // the host that the command was for
	Note  string `json:"note,omitempty"` // what whoever gave the command may not have expected
}

// noteUnknown notes that nothing of the host is in memory: it may be misspelled, but its URLs may be on disk, too.
func (d *done) noteUnknown(c *Crawl) {
	if k := c.Host(d.Host); k.Frontier == nil && k.Limiter == nil {
		d.Note = "nothing of this host is in memory now: this holds for when it comes. Hosts are written as in /api/snapshot, with the port unless that is 80 or 443"
	}
}

type failure struct {
	status int
	detail string
}

func (f *failure) Error() string { return f.detail }

type body struct {
	URL     string   `json:"url"`     // for seeds
	MaxRPS  *float64 `json:"max_rps"` // for ceiling
	Include []string `json:"include"` // for scope; nil if it was not given, as for Exclude
	Exclude []string `json:"exclude"`
}

func (b *body) attrs() (attrs []slog.Attr) {
	if b.URL != "" {
		attrs = append(attrs, slog.String("url", shortened(b.URL)))
	}
	if b.MaxRPS != nil {
		attrs = append(attrs, slog.Float64("max_rps", *b.MaxRPS))
	}
	if b.Include != nil || b.Exclude != nil {
		attrs = append(attrs,
			slog.String("include", shortened(strings.Join(b.Include, " "))), slog.String("exclude", shortened(strings.Join(b.Exclude, " "))))
	}
	return attrs
}

// pattern is the route of the order: each has its own, so that a wrong method is told apart from an unknown path.
func (o *order) pattern() string {
	if o.host {
		return "POST /api/hosts/{host}/" + o.name
	}
	return "POST /api/" + o.name
}

func (c *Console) carryOut(o *order, w http.ResponseWriter, r *http.Request) {
	is := done{Order: o.name, Host: r.PathValue("host")}
	attrs := []slog.Attr{slog.String("order", is.Order), slog.String("who", r.RemoteAddr)}
	if is.Host != "" {
		attrs = append(attrs, slog.String("host", shortened(is.Host)))
	}
	said, err := readBody(w, r)
	if err == nil {
		// It is read, and a disk may take longer than clients may to write it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		err = o.run(r.Context(), &c.crawl, &is, &said)
	}
	c.forget()
	attrs = append(attrs, said.attrs()...)
	if err != nil {
		c.metrics.orders.WithLabelValues(is.Order, "failed").Inc()
		c.cfg.Log.LogAttrs(r.Context(), slog.LevelWarn, "an order could not be carried out", append(attrs, slog.Any("error", err))...)
		f, ok := errors.AsType[*failure](err)
		if !ok {
			f = &failure{http.StatusInternalServerError, err.Error()}
		}
		refuse(w, f.status, f.detail)
		return
	}
	c.metrics.orders.WithLabelValues(is.Order, "done").Inc()
	c.cfg.Log.LogAttrs(r.Context(), slog.LevelInfo, "an order was carried out", attrs...)
	answer(w, is)
}

func aboutInput(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrGone):
		return &failure{http.StatusConflict, err.Error()}
	}
	return &failure{http.StatusUnprocessableEntity, err.Error()}
}

func present(there bool) error {
	if there {
		return nil
	}
	return aboutInput(ErrGone)
}

// readBody reads the body of a command, which may be empty if the command needs nothing.
func readBody(w http.ResponseWriter, r *http.Request) (said body, err error) {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err = dec.Decode(&said)
	if errors.Is(err, io.EOF) {
		return body{}, nil
	}
	if err == nil && !errors.Is(dec.Decode(new(json.RawMessage)), io.EOF) {
		err = errors.New("there is something behind the object")
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return body{}, &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("an order has %d bytes at most", maxBody)}
	}
	if err != nil {
		return body{}, &failure{http.StatusBadRequest, fmt.Sprintf(`the body is no order (%v): write a JSON object of "url", "max_rps", "include" and "exclude"`, err)}
	}
	return said, nil
}

func isMedia(header, want string) bool {
	media, _, err := mime.ParseMediaType(header)
	return err == nil && media == want
}

type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	writeJSON(w, status, problem{Title: http.StatusText(status), Status: status, Detail: detail})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	writeJSON(w, http.StatusOK, value)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil { // a number that JSON does not have, in what the crawl says of itself
		status, body = http.StatusInternalServerError, []byte(`{"title":"the answer is no JSON","status":500}`)
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	refuse(w, http.StatusNotFound, "there is no such thing; see /api/snapshot, /api/hosts/HOST, /api/events, /metrics, /healthz, /readyz and /api/controls; POST the orders /api/pause, resume, stop, checkpoint, seeds and scope, and /api/hosts/HOST/block, unblock and ceiling")
}

// plainProblems turns the mux's own errors into problem documents.
func plainProblems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r) // which sets the values of the pattern
			return
		}
		probe := &probe{header: make(http.Header)}
		h.ServeHTTP(probe, r)
		if allow := probe.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			refuse(w, http.StatusMethodNotAllowed, "use "+allow)
			return
		}
		notFound(w, r)
	})
}

type probe struct{ header http.Header }

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(int)             {}

// healthz answers while the process runs, whatever the crawl does.
func (c *Console) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]bool{"alive": true})
}

// readyz reports whether the crawl can work. Hosts that are down do not count.
func (c *Console) readyz(w http.ResponseWriter, _ *http.Request) {
	err := c.crawl.Ready()
	switch s := c.sharedSnapshot(); {
	case err != nil:
	case s.Reason != "": // the proxy fails
		err = errors.New(s.Reason)
	case s.Limiter.Domains > 0 && s.Limiter.Open == s.Limiter.Domains:
		err = fmt.Errorf("the circuit of every host is open: %d fail", s.Limiter.Open)
	}
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, map[string]bool{"ready": true})
}

func (c *Console) snapshot(w http.ResponseWriter, _ *http.Request) {
	answer(w, c.sharedSnapshot())
}

func (c *Console) host(w http.ResponseWriter, r *http.Request) {
	h := c.crawl.Host(r.PathValue("host"))
	if h.Frontier == nil && h.Limiter == nil {
		refuse(w, http.StatusNotFound, "nothing is known of that host; write it as /api/snapshot does, with its port unless that is 80 or 443")
		return
	}
	answer(w, h)
}

func (c *Console) showControls(w http.ResponseWriter, _ *http.Request) {
	answer(w, c.crawl.Controls())
}
