package console

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/pipeline"
)

const spanAll = "all"

// spanRecent is how much the charts show otherwise: what the samples of each second reach.
const spanRecent = recentRoom * sampleEvery

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	v := dashboard.Overview{Frame: c.frame(r, "Crawl"), Table: dashboard.ParseTable(r.URL.Query())}
	s := c.sharedSnapshot()
	rows, left, taken := c.list()
	v.Table.Span = v.Span
	v.Table.Taken, v.Table.Left = taken, left
	v.Table.Fill(rows)
	crawlSamples := c.history.ofCrawl(v.Span == spanAll)
	v.Figures = figuresOf(&s)
	v.Charts = chartsOf(crawlSamples, v.Now, v.Span)
	v.Outcomes = outcomesOf(s.Outcomes)
	v.Waits = waitsOf(rows)
	v.Working = workingOf(&s)
	v.Fleet = s.Fleet.summary()
	seen := c.crawl.Recent()
	v.Errors, v.Pages = seen.Errors, seen.Pages
	v.Changed = changedOf(c.crawl.Controls())
	page, err := c.pages.Overview(v)
	c.show(w, http.StatusOK, page, err)
}

// hostPage is the page of one host. It is there for one of which nothing is known yet, so
// that it can be blocked before it is asked.
func (c *Console) hostPage(w http.ResponseWriter, r *http.Request) {
	k := c.crawl.Host(r.PathValue("host"))
	v := dashboard.Host{Frame: c.frame(r, k.Host), Host: k.Host, Known: k.Frontier != nil || k.Limiter != nil, State: dashboard.Idle}
	if v.Known {
		c.history.watch(k.Host, v.Now)
		samples, events := c.history.of(k.Host, v.Span == spanAll)
		if k.Limiter != nil {
			events = withEarlier(events, k.Limiter.Events)
			v.Reason = k.Limiter.Reason
		}
		v.Charts = hostCharts(samples, events, v.Now, v.Span)
		v.Events = events
		v.Figures = hostFigures(&k)
		describe(&v, &k)
	}
	force := c.crawl.Controls()
	v.Blocked = slices.Contains(force.Blocked, k.Host)
	if rps, ok := force.Ceilings[k.Host]; ok {
		v.MaxRPS = dashboard.Number(rps)
	}
	status := http.StatusOK
	if !v.Known {
		status = http.StatusNotFound
	}
	page, err := c.pages.Host(v)
	c.show(w, status, page, err)
}

func (c *Console) frame(r *http.Request, title string) dashboard.Frame {
	s := c.sharedSnapshot()
	f := dashboard.Frame{
		Title: title, State: "running", Reason: s.Reason, Paused: s.Paused,
		Elapsed: time.Duration(s.ElapsedSeconds * float64(time.Second)),
		Now:     c.cfg.Clock.Now(), LoggedIn: c.cfg.Token != "" && c.guard.sessions.knows(r),
		Span:       "recent",
		Checkpoint: c.crawl.Checkpoint != nil,
	}
	if r.URL.Query().Get("span") == spanAll {
		f.Span = spanAll
	}
	switch end := s.State; {
	case end != pipeline.EndNone:
		f.State, f.Over = end.String(), true
	case s.Paused:
		f.State = "paused"
	}
	return f
}

func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	content, media, ok := c.pages.Asset(r.PathValue("name"))
	if !ok {
		notFound(w, r)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(content) // see writeJSON
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if c.cfg.Token == "" || c.guard.sessions.knows(r) {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	page, err := c.pages.Login("")
	c.show(w, http.StatusOK, page, err)
}

// enter is the form, filled in. It takes a token as a header has it, and gives a cookie for
// a number of our own.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	token := r.PostFormValue("token")
	if c.cfg.Token != "" && !c.guard.isToken(token) {
		v := refusal{reasonToken, http.StatusUnauthorized, "the token of the form is wrong"}
		c.guard.count(r, v)
		page, err := c.pages.Login("That is not the token of this crawl.")
		c.show(w, v.status, page, err)
		return
	}
	if c.cfg.Token != "" {
		http.SetCookie(w, c.guard.sessions.cookie(r, c.guard.sessions.open()))
		c.cfg.Log.LogAttrs(r.Context(), slog.LevelInfo, "somebody logged in to the console", slog.String("who", r.RemoteAddr))
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	c.guard.sessions.close(r)
	http.SetCookie(w, c.guard.sessions.cookie(r, ""))
	http.Redirect(w, r, loginPath, http.StatusSeeOther)
}

func (c *Console) show(w http.ResponseWriter, status int, page []byte, err error) {
	if err != nil {
		c.cfg.Log.Error("a page could not be drawn", slog.Any("error", err))
		refuse(w, http.StatusInternalServerError, "the page could not be drawn; the log says why")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", dashboard.Policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	w.WriteHeader(status)
	_, _ = w.Write(page) // see writeJSON
}
