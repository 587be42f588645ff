package console

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

const spanAll = "all"

// spanRecent is the time that charts show by default: that of the recent samples.
const spanRecent = recentRoom * sampleEvery

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	v := dashboard.Overview{Frame: c.frame(r, "Crawl"), Table: dashboard.ParseTable(r.URL.Query())}
	s := c.sharedSnapshot()
	hosts := c.list()
	v.Table.Span = v.Span
	v.Table.Taken, v.Table.Left = hosts.taken, hosts.left
	v.Table.Fill(hosts.rows)
	for i := range v.Table.Rows {
		c.explain(&v.Table.Rows[i], v.Now)
	}
	crawlSamples := c.history.ofCrawl(v.Span == spanAll)
	v.Charts = chartsOf(crawlSamples, v.Now, v.Span)
	v.Figures = figuresOf(&s, pageRate(crawlSamples))
	v.Outcomes = dashboard.Counts{Head: "Outcome", Unit: "Requests", Counts: outcomesOf(s.Outcomes)}
	v.Waits = dashboard.Counts{Head: "Hosts with work wait for", Unit: "Hosts", Counts: waitsOf(hosts.rows)}
	v.Working = workingOf(&s)
	v.Fleet = fleetSummary(s.Fleet)
	seen := c.crawl.Recent()
	v.Errors, v.Pages = seen.Errors, seen.Pages
	v.Changed = changedOf(c.crawl.Controls())
	show(c, w, http.StatusOK, c.pages.Overview, v)
}

// hostPage is the page of one host. It also exists for an unknown host, so that it can be blocked before it is
// requested.
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
		v.MaxRPS = dashboard.Number(rps) + "/s, set here"
		if d := k.Limiter; d != nil && d.CeilingRPS < rps {
			v.MaxRPS += "; robots.txt allows " + dashboard.Number(d.CeilingRPS) + "/s"
		}
	}
	status := http.StatusOK
	if !v.Known {
		status = http.StatusNotFound
	}
	show(c, w, status, c.pages.Host, v)
}

func (c *Console) frame(r *http.Request, title string) dashboard.Frame {
	s := c.sharedSnapshot()
	f := dashboard.Frame{
		Title: title, State: s.State, Reason: s.Reason, Paused: s.Paused, Over: s.Snapshot.State != pipeline.EndNone,
		Elapsed: time.Duration(s.ElapsedSeconds * float64(time.Second)),
		Now:     c.cfg.Clock.Now(), LoggedIn: c.cfg.Token != "" && c.guard.sessions.knows(r),
		Span:       "recent",
		Checkpoint: c.crawl.Checkpoint != nil,
	}
	if r.URL.Query().Get("span") == spanAll {
		f.Span = spanAll
	}
	return f
}

func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	content, media, ok := dashboard.Asset(r.PathValue("name"))
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
	show(c, w, http.StatusOK, c.pages.Login, "")
}

// enter handles the login form: it checks the token and sets the cookie of a new session.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	token := r.PostFormValue("token")
	if c.cfg.Token != "" && !c.guard.isToken(token) {
		v := refusal{reasonToken, http.StatusUnauthorized, "the token of the form is wrong"}
		c.guard.count(r, v)
		show(c, w, v.status, c.pages.Login, "That is not the token of this crawl.")
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

// show answers with the page that draw makes of what it shows.
func show[T any](c *Console, w http.ResponseWriter, status int, draw func(T) ([]byte, error), of T) {
	page, err := draw(of)
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

// figuresOf are the six numbers that say whether a crawl goes well.
func figuresOf(s *state, rate string) []dashboard.Figure {
	whole := dashboard.Whole
	refused := s.Outcomes[outcome.Throttled.String()] + s.Outcomes[outcome.Unavailable.String()]
	share := "of no requests"
	if s.Requests > 0 {
		share = dashboard.Number(100*float64(refused)/float64(s.Requests)) + " % of the requests"
	}
	forbidden := ""
	if s.Refused > 0 {
		forbidden = ", and " + whole(s.Refused) + " forbidden by robots.txt"
	}
	return []dashboard.Figure{
		{Name: "Pages", Value: whole(s.Pages), Note: rate},
		{Name: "Queued", Value: whole(s.Frontier.Queued), Note: "of " + whole(s.Frontier.Known) + " known"},
		{Name: "Requests", Value: whole(s.Requests), Note: whole(s.Failed) + " failed, " + dashboard.Plural(s.Retries, "retry")},
		{Name: "Refused (429, 503)", Value: whole(refused), Note: share},
		{Name: "Errors", Value: whole(s.Errors), Note: "URLs not obtained" + forbidden},
		{Name: "Received", Value: dashboard.Bytes(s.WireBytes), Note: dashboard.Bytes(s.Bytes) + " unpacked"},
	}
}

// explain adds to a row why its host has the rate it has, and how the rate was in the last minutes.
func (c *Console) explain(r *dashboard.Row, now time.Time) {
	if k := c.crawl.Host(r.Host); k.Limiter != nil {
		r.Why = k.Limiter.Reason
	}
	samples, events := c.history.of(r.Host, false)
	r.Rates = rateChart(thinned(samples), events, now, "")
}

func outcomesOf(m map[string]int64) []dashboard.Count {
	list := make([]dashboard.Count, 0, len(m))
	for name, n := range m {
		list = append(list, dashboard.Count{Name: strings.ReplaceAll(name, "_", " "), N: n})
	}
	return ranked(list)
}

func ranked(list []dashboard.Count) []dashboard.Count {
	slices.SortFunc(list, func(a, b dashboard.Count) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name)) })
	for i := range list {
		list[i].Percent = int(100*float64(list[i].N)/float64(max(list[0].N, 1)) + 0.5)
	}
	return list
}

// maxWaits is how many reasons are told; gates may have one for each host.
const maxWaits = 12

func waitsOf(rows []dashboard.Row) []dashboard.Count {
	type wait struct{ hosts, urls int64 }
	by := make(map[string]wait)
	for i := range rows {
		r := &rows[i]
		if r.Queued == 0 {
			continue
		}
		w := by[reasonWords(r.Reason)]
		by[reasonWords(r.Reason)] = wait{w.hosts + 1, w.urls + int64(r.Queued)}
	}
	list := make([]dashboard.Count, 0, len(by))
	for name, w := range by {
		list = append(list, dashboard.Count{Name: name, N: w.hosts, Note: dashboard.Plural(w.urls, "URL") + " queued"})
	}
	list = ranked(list)
	return list[:min(len(list), maxWaits)]
}

var waitWords = map[string]string{
	"":                   "a free worker",
	"none":               "a free worker",
	"start":              "the initial rate",
	"learned":            "the learned rate",
	"crawl_delay":        "Crawl-delay in robots.txt",
	"retry_after":        "Retry-After of the host",
	"rule":               "the rate or the delay in your settings",
	"breaker":            "an open circuit, after refusals or failures",
	"global":             "the rate limit of all hosts together",
	"shared":             "the rate limit of hosts that share an address or a domain",
	"cap":                "a cap in your settings",
	"quota":              "the next quota of the host",
	"global_concurrency": "the limit of requests in flight of all hosts",
	"global_bytes":       "the limit of bytes per second of all hosts",
	"per_host_max":       "a response: as many requests are in flight as one host may have",
	"max_in_flight":      "a response: as many requests are in flight as the host takes",
	"retry":              "the time of a retry",
	"loading":            "URLs that are being read from the disk",

	pipeline.CrawlPaused: "the end of the pause",
	pipeline.ProxyFails:  "a proxy that fails",
}

// reasonWords is what a host waits for, in words. A reason with a colon names its host behind it.
func reasonWords(reason string) string {
	if words, ok := waitWords[reason]; ok {
		return words
	}
	short, _, _ := strings.Cut(reason, ":")
	return cmp.Or(waitWords[short], short)
}

func workingOf(s *state) string {
	total := s.ElapsedSeconds * float64(s.Workers.Count)
	if total <= 0 {
		return "The crawl has not begun."
	}
	part := func(seconds float64) int { return int(min(100*seconds/total, 100) + 0.5) }
	return fmt.Sprintf("%s: %d %% of the time fetching, %d %% waiting for a permit, the rest without a URL that may be fetched.",
		dashboard.Plural(int64(s.Workers.Count), "worker"), part(s.Workers.BusySeconds), part(s.Workers.WaitSeconds))
}

// maxOrders is how many blocked hosts are listed, and how many with a rate of their own.
const maxOrders = 50

func changedOf(force Controls) dashboard.Changed {
	v := dashboard.Changed{Include: force.Include, Exclude: force.Exclude}
	blocked := make([]dashboard.Order, len(force.Blocked))
	for i, host := range force.Blocked {
		blocked[i].Host = host
	}
	ceilings := make([]dashboard.Order, 0, len(force.Ceilings))
	for _, host := range slices.Sorted(maps.Keys(force.Ceilings)) {
		ceilings = append(ceilings, dashboard.Order{Host: host, Value: dashboard.Number(force.Ceilings[host]) + "/s"})
	}
	v.Blocked, v.Ceilings = blocked[:min(len(blocked), maxOrders)], ceilings[:min(len(ceilings), maxOrders)]
	v.Unlisted = len(blocked) + len(ceilings) - len(v.Blocked) - len(v.Ceilings)
	return v
}

func hostFigures(k *Host) []dashboard.Figure {
	var list []dashboard.Figure
	add := func(name, value, note string) {
		list = append(list, dashboard.Figure{Name: name, Value: value, Note: note})
	}
	whole := func(n int) string { return dashboard.Whole(int64(n)) }
	if d := k.Limiter; d != nil {
		add("Rate", dashboard.Number(d.FillRate)+"/s", strings.ReplaceAll(d.LimitedBy.String(), "_", " "))
		limit := "not known"
		if d.LimitRPS > 0 {
			limit = dashboard.Number(d.LimitRPS) + "/s"
		}
		add("Limit of the host", limit, "refused of late, or told")
		add("Circuit", strings.ReplaceAll(d.State.String(), "_", " "), dashboard.Plural(int64(d.ConsecutiveFails), "failure")+" in a row")
		add("In flight", whole(d.InFlight), whole(d.Waiting)+" waiting")
		add("Latency", dashboard.Number(d.AvgLatencyMS)+" ms", dashboard.Number(d.P95LatencyMS)+" ms at the 95th percentile")
		add("Failed requests", dashboard.Number(100*d.ErrorRate)+" %", "of the last requests")
		add("Next request", "in "+dashboard.Number(d.NextPermitInMS)+" ms", "")
	}
	if f := k.Frontier; f != nil {
		add("Queued", whole(f.Queued), "")
		add("URLs", whole(f.Pages), "")
		failures := "none"
		if f.Failures > 0 {
			failures = whole(f.Failures) + " in a row"
		}
		add("Failures", failures, strings.ReplaceAll(f.Trouble, "_", " "))
	}
	return list
}

func describe(v *dashboard.Host, k *Host) {
	circuit := breaker.Closed
	if k.Limiter != nil {
		circuit = k.Limiter.State
	}
	switch f := k.Frontier; {
	case f != nil:
		v.State = StateOf(f, circuit)
		if f.Reason != "" && f.Queued > 0 {
			v.Waits = reasonWords(f.Reason)
		}
	case circuit != breaker.Closed:
		v.State = dashboard.Failing
	}
}

// withEarlier is the events that are kept, behind those from before that the limiter knows.
func withEarlier(kept, known []ratelimit.Event) []ratelimit.Event {
	var list []ratelimit.Event
	for _, e := range known {
		if len(kept) == 0 || e.Time.Before(kept[0].Time) {
			list = append(list, e)
		}
	}
	return append(list, kept...)
}

const (
	maxListed = 100_000     // how many hosts a table is made of; the others are counted. It is 20 MB.
	listTime  = time.Minute // how long a list is kept that nobody looks at
)

// listing is the hosts when they were listed, and how many were too many. Nobody may change them.
type listing struct {
	rows  []dashboard.Row
	left  int
	taken time.Time
}

func (c *Console) list() listing {
	return c.listing.get(c.cfg.Clock, listedFor, func(now time.Time) listing {
		l := listing{taken: now}
		c.crawl.EachHost(func(h frontier.HostState, b ratelimit.Brief) {
			if len(l.rows) >= maxListed {
				l.left++
				return
			}
			l.rows = append(l.rows, rowOf(&h, b))
		})
		return l
	})
}

func rowOf(h *frontier.HostState, b ratelimit.Brief) dashboard.Row {
	return dashboard.Row{
		Host: h.Host, State: StateOf(h, b.State), Reason: h.Reason, Queued: h.Queued,
		Pages: h.Pages, Rate: b.FillRate, Limit: b.LimitRPS, LatencyMS: b.AvgLatencyMS, Failures: h.Failures,
	}
}

// StateOf is a host in one word: what is worst about it.
func StateOf(h *frontier.HostState, circuit breaker.State) dashboard.State {
	switch {
	case h.Excluded:
		return dashboard.Blocked
	case circuit != breaker.Closed:
		return dashboard.Failing
	case h.Queued == 0 && h.InFlight == 0:
		return dashboard.Idle
	case h.Blocked:
		return dashboard.Refusing
	case h.InFlight == 0 && (h.Reason == pipeline.CrawlPaused || strings.HasPrefix(h.Reason, pipeline.ProxyFails)):
		return dashboard.Paused
	}
	return dashboard.Active
}
