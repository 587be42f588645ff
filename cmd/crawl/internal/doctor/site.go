package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/plan"
	"github.com/treadlight/crawl/internal/records/summary"
	"github.com/treadlight/crawl/record"
)

const (
	siteTime = time.Minute      // bounds the look at a site
	mostSkew = 60 * time.Second // difference of clocks that is worth a note

	maxSkipped = 1000 // links of pages are skipped too
)

// visit is what a crawl of one page meets. Hooks write to it.
type visit struct {
	mu      sync.Mutex               // guards what follows
	robots  string                   // the status of robots.txt; empty means that there was no answer
	limited string                   // how the host refused the page for now; empty means that it did not
	skipped map[string]crawl.Skipped // by URL, at most maxSkipped; the page that was asked for is under ""
	clock   time.Duration
	pages   []*crawl.Page // answers, redirects among them
	stop    func()        // ends the crawl

	rendered bool // by the settings, the crawl runs the scripts of pages
}

// site requests robots.txt and one page, follows its redirects, and tells what it finds.
func (cfg *Config) site(ctx context.Context, at string, tell func(Finding)) error {
	o := cfg.Options
	v := &visit{skipped: make(map[string]crawl.Skipped), rendered: o.Render.Mode != "" && o.Render.Mode != "never"}
	o.StateDir, o.Fleet, o.Traces, o.Output, o.Politeness.Remember = "", crawl.FleetOptions{}, crawl.TracesOptions{}, crawl.OutputOptions{}, ""
	o.Sinks, o.Render = []record.Sink{}, crawl.RenderOptions{}
	o.MaxPages, o.MaxPagesPerHost, o.MaxTime = 0, 0, siteTime
	o.OnResponse, o.OnSkip = v.response, v.skip
	o.OnPage = func(_ context.Context, p *crawl.Page) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.pages = append(v.pages, p.Clone())
		return nil
	}
	c, err := crawl.New(o)
	if err != nil {
		return cli.Usage(err)
	}
	v.stop = c.Stop
	err = job.Supervise(ctx, cfg.Term, slog.New(slog.DiscardHandler), 0, c, func(ctx context.Context) error { return c.Run(ctx, at) })
	if errors.Is(err, job.ErrForced) || ctx.Err() != nil {
		return err
	}
	v.tell(at, err, tell)
	return nil
}

func (v *visit) response(r *http.Response) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case r.Request.URL.Path == "/robots.txt":
		v.robots = status(r.StatusCode)
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode == http.StatusServiceUnavailable: // a crawl would wait
		v.limited = r.Request.URL.String() + ": " + status(r.StatusCode)
		if after := r.Header.Get("Retry-After"); after != "" {
			v.limited += ", Retry-After: " + after
		}
		v.stop()
	}
	if date, err := http.ParseTime(r.Header.Get("Date")); err == nil && r.Header.Get("Age") == "" {
		v.clock = time.Until(date).Round(time.Second)
	}
	return nil
}

func (v *visit) skip(s crawl.Skipped) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.Referrer == "" {
		v.skipped[""] = s
	} else if len(v.skipped) < maxSkipped {
		v.skipped[s.URL] = s
	}
}

// advice has what to do about a class of failures.
var advice = map[string]string{
	"no_host":        "check the name, and the name servers of this machine; access.dns_server names another",
	"network":        "check that the host can be reached from here, as by curl; --proxy goes another way",
	"tls":            "check the host's certificate and this machine's clock; access.ca_file trusts another authority",
	"timeout":        "the host is slow or a firewall drops packets; --timeout waits longer",
	"address_denied": "--allow-private lets a crawl connect there",
	"proxy":          job.MendProxy,
}

// tell tells what was met, in the order in which a crawl meets it.
func (v *visit) tell(at string, err error, tell func(Finding)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.robots != "" {
		tell(Finding{About: "robots.txt", State: OK, Text: v.robots})
	}
	for i, p := range v.pages {
		if i == 0 {
			tell(connection(p))
		}
		f := Finding{About: "page", State: OK, Text: fmt.Sprintf("%s: %s", p.URL, outcome(p))}
		switch {
		case p.Err != nil:
			f.State, f.Advice = Problem, "try again later, and see whether a browser has the same trouble"
			if e, ok := errors.AsType[*crawl.PageError](p.Err); ok {
				f.Advice = cmp.Or(advice[e.Class], f.Advice)
			}
		case p.Status == http.StatusForbidden, p.Status == http.StatusUnauthorized:
			f.State, f.Advice = Problem, "the host refuses this client: --auth or --login identify it, --contact says who asks"
		case p.Status >= 400:
			f.State, f.Advice = Problem, "check the URL in a browser"
		}
		tell(f)
		if f.State == OK && p.OK() {
			v.notes(p, tell)
		}
	}
	last := "" // where the last answer leads
	if n := len(v.pages); n > 0 {
		last = v.pages[n-1].RedirectTo
	}
	missed := cmp.Or(last, at)
	explain := "crawl explain " + cli.ShellWord(missed) + " says by which rule"
	switch skipped, there := v.skipped[last]; {
	case v.limited != "":
		tell(Finding{"page", Note, v.limited, "the host limits or is overloaded: a crawl waits as it asks, and finds the rate that it tolerates"})
	case len(v.pages) > 0 && last == "":
	case there:
		tell(Finding{"page", Problem, missed + " is not requested: " + skipped.Detail, cmp.Or(advice[skipped.Reason], explain)})
	case err != nil:
		tell(Finding{"page", Problem, missed + ": " + err.Error(), explain})
	default:
		tell(Finding{"page", Problem, fmt.Sprintf("%s: no answer within %v", missed, siteTime), advice["timeout"]})
	}
	if v.clock.Abs() > mostSkew {
		tell(Finding{"clock", Note, fmt.Sprintf("the host's clock differs by %v from that of this machine", v.clock), "set this machine's clock, unless the host's is wrong: certificates and caches depend on it"})
	}
}

// notes tells why the page may not be the one that people see.
func (v *visit) notes(p *crawl.Page, tell func(Finding)) {
	for _, note := range plan.Notes(p) {
		switch {
		case note == plan.NoteLogin:
			tell(Finding{"page", Note, "this page has a password form", "if it stands in place of the page that you want, --login FILE logs in first; its page in crawl docs says how"})
		case note == plan.NoteScripts && !v.rendered:
			tell(Finding{"page", Note, "this page is empty without JavaScript", "--render auto runs the scripts of such pages in a browser"})
		}
	}
}

// connection says how long the parts of the first request for a page took.
func connection(p *crawl.Page) Finding {
	parts := []string{"answered by " + p.RemoteAddr}
	if p.RemoteAddr == "" {
		parts[0] = "no answer"
	}
	for _, t := range []struct {
		name string
		took time.Duration
	}{{"name", p.Timings.DNS}, {"connection", p.Timings.Connect}, {"TLS", p.Timings.TLS}, {"first byte", p.Timings.FirstByte}} {
		if t.took > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", t.name, t.took.Round(10*time.Microsecond)))
		}
	}
	return Finding{About: "network", State: OK, Text: strings.Join(parts, ", ")}
}

func outcome(p *crawl.Page) string {
	switch {
	case p.Err != nil:
		return p.Err.Error()
	case p.RedirectTo != "":
		return status(p.Status) + ", leads to " + p.RedirectTo
	}
	return fmt.Sprintf("%s, %s, %s in %v", status(p.Status), cmp.Or(p.ContentType, "no type"), cli.Size(int64(len(p.Body))), p.Timings.Total.Round(time.Millisecond))
}

func status(code int) string {
	text := strconv.Itoa(code)
	if meaning := summary.Meaning(text); meaning != "" {
		text += " (" + meaning + ")"
	}
	return text
}
