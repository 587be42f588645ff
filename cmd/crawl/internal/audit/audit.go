// Package audit is `crawl audit`: it crawls a site, keeps small facts about each page, and reports what is wrong with
// the site.
//
//   - facts: what is kept of a URL, one line of JSON each, in the directory of the crawl's state
//   - rules: the table of rules, and the site that they check, built from the facts when the crawl is done
//   - report: what was found, as HTML, CSV, JSON and JUnit, and compared with an older audit
//
// The crawl is one of the public package. A handler emits facts, and a sink writes them with the records, so that the
// same command continues a crawl that was killed. Links out of scope are requested by the same crawl, by HEAD and then
// by GET, at the pace of their hosts.
package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/rules"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/record"
)

// Config says what to audit, and how.
type Config struct {
	Options  crawl.Options // of the crawl; the audit sets sinks and hooks
	Seeds    []string
	Dir      string // for all files; empty means that only Out is written
	External bool
	Against  string // an older audit: its directory or its file
	Skip     []string
	Only     []string // nil means all
	FailOn   []string
	JSON     bool // write JSON to Out instead of text
	Quiet    bool
	Every    time.Duration // between two lines of progress; zero means none
	Out      io.Writer
	Term     *cli.Terminal
	Log      *slog.Logger
}

const (
	stateDir  = "state"          // in Dir
	nextDir   = "state.next"     // in Dir: the state of an audit that replaces the one it is compared with, until it is done
	jsonFile  = "audit.json"     // in Dir
	factsName = "facts.jsonl.gz" // in stateDir
	seedsName = "seeds"          // in stateDir: the seeds, one on a line
	goOn      = "go on with it by the same command without --overwrite"

	// Labels of requests besides those of the site, and the metadata that counts redirects.
	labelOutside = "audit-outside"
	labelRobots  = "audit-robots"
	metaHops     = "audit-hops"
	maxHops      = 10

	// mostMemory is the size of the heap, in bytes, above which garbage is collected more often. A site of 100,000 pages
	// with 50 links each needs half of it.
	mostMemory = 400 << 20
	// maxAge is how long the response of another site may be reused.
	maxAge = 24 * time.Hour
)

// Run audits a site. Its error carries the exit code, also that of findings.
func Run(ctx context.Context, cfg Config) error {
	a := &audit{Config: cfg, began: clock.System().Now()}
	a.Seeds = slices.Clone(a.Seeds)
	for i, seed := range a.Seeds { // as the facts have them; the crawl refuses what is no URL
		if u, err := canonical.ParseTyped(seed); err == nil {
			a.Seeds[i] = u.String()
		}
	}
	old, err := a.older() // before the directory is prepared: it may be that of the older audit
	if err != nil {
		return err
	}
	if err := a.prepare(); err != nil {
		return err
	}
	if a.Dir == "" {
		defer os.RemoveAll(a.work) //nolint:errcheck // what remains is in a temporary directory
	}
	result, err := a.judge(a.crawl(ctx))
	if err != nil {
		return a.fail(err)
	}
	if old != nil {
		result.Compare(old)
	}
	result.Finish(a.failOn)
	if err := a.write(result); err != nil {
		return err
	}
	switch {
	case a.interrupted:
		return &cli.Error{Code: cli.CodeInterrupted}
	case result.Failing > 0:
		return &cli.Error{Code: cli.CodeFindings, Err: fmt.Errorf("the audit fails: %s (%s; set by --fail-on)", cli.Plural(result.Failing, "finding"), strings.Join(a.FailOn, ","))}
	}
	return nil
}

// audit is an audit in progress.
type audit struct {
	Config

	began        time.Time
	work         string // the directory of the facts; temporary without Dir
	skip, failOn func(*rules.Finding) bool
	known        map[string]*facts.Page // targets of links out of scope, from an older audit
	prefix       bool                   // the scope is a prefix, so links to the same host may be out of scope
	asked        sync.Map               // origins whose robots.txt was requested, and URLs of known that were written again

	partial     string // why not everything was visited; empty means that it was
	interrupted bool
	left        int64 // URLs that are queued, if the audit has obtained something
}

// prepare checks the arguments and creates the directories.
func (a *audit) prepare() (err error) {
	skip, bad1 := report.Selector("--skip", a.Skip)
	only, bad2 := report.Selector("--only", a.Only)
	a.failOn, err = report.Selector("--fail-on", a.FailOn)
	if err = cmp.Or(bad1, bad2, err); err != nil {
		return err
	}
	a.skip = func(f *rules.Finding) bool { return skip(f) || a.Only != nil && !only(f) }
	if slices.Contains(a.FailOn, "new") && a.Against == "" {
		return cli.Usagef("--fail-on new: without an older audit all findings are new; give --against DIR, or leave it out for the first audit")
	}
	if a.External && a.Options.Politeness.Strategy == "off" {
		return cli.Usagef("--external requests links to sites of others, and --strategy off would do so without limit: leave one of them out")
	}
	if a.Dir == "" {
		a.work, err = os.MkdirTemp("", "crawl-audit-")
		return cli.Open("a directory for temporary files", err)
	}
	a.work = filepath.Join(a.Dir, stateDir)
	next, done := filepath.Join(a.Dir, nextDir), filepath.Join(a.Dir, jsonFile)
	if _, err := os.Stat(done); err == nil { // an audit that can continue has no report yet, or replaces the one that is there
		itself := cli.SameFile(a.Against, a.Dir) || cli.SameFile(a.Against, done)
		_, none := os.Stat(next)
		switch {
		case !a.Options.Output.Overwrite && (!itself || none != nil):
			return cli.IOf("%s has an audit that is done: add --overwrite to replace it, and --against %s to compare with it", a.Dir, a.Dir)
		case itself: // it stays until there is a new one
			a.work = next
		default:
			if err = errors.Join(os.RemoveAll(a.work), os.RemoveAll(next), os.Remove(done)); err != nil {
				return cli.Write("--output", err)
			}
		}
	}
	return cli.Open("--output", cmp.Or(os.MkdirAll(a.Dir, 0o777), os.MkdirAll(a.work, 0o700))) // the umask of the user takes bits away
}

// older returns the audit to compare with, or nil. What that audit knows of other sites is reused for a day.
func (a *audit) older() (*report.Report, error) {
	if a.Against == "" {
		return nil, nil
	}
	path := a.Against
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		a.known = make(map[string]*facts.Page)
		// Links that are not known are checked, so a damaged or missing file does no harm.
		_ = facts.Each(filepath.Join(path, stateDir, factsName), `"kind":"outside"`, func(f *facts.Page) {
			if f.Kind == facts.Outside && f.Status/100 == 2 && a.began.Sub(time.Unix(f.At, 0)) < maxAge {
				a.known[f.URL] = f
			}
		})
		path = filepath.Join(path, jsonFile)
	}
	old, err := report.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.IOf("--against %s: there is no audit: leave --against out the first time; if the audit there obtained nothing, give the last one that has audit.json", a.Against)
	case err != nil:
		return nil, cli.IOf("--against %s: %w", a.Against, err)
	}
	return old, nil
}

// crawl visits the site, or continues an earlier crawl.
func (a *audit) crawl(ctx context.Context) error {
	o, err := a.open()
	if err != nil {
		return err
	}
	var at record.Position // in the facts
	if o.State != nil {
		if o.State.Done() {
			return o.State.Close()
		}
		at = o.State.Position(factsName)
	}
	w, err := sink.Open(filepath.Join(a.work, factsName), sink.Config{Gzip: true, Existing: sink.Resume, Position: at.Bytes, Records: at.Records})
	if err != nil {
		err = cli.Open("the facts of the audit", err)
		if o.State != nil {
			err = errors.Join(err, o.State.Close())
		}
		return err
	}
	file := factsFile{&sink.Lines{Writer: w, Of: func(any) bool { return true }}}
	a.prefix = o.Scope.Mode == "prefix"
	o.Sinks, o.OnPage, o.Log = []record.Sink{file}, a.handle, job.OfProgram(a.Log)
	c, err := crawl.New(o)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	err = job.Supervise(ctx, a.Term, a.Log, a.Every, c, func(ctx context.Context) error { return c.Run(ctx, a.Seeds...) })
	snap := c.Snapshot()
	if snap.Pages > 0 || o.State != nil {
		a.left = snap.Frontier.Queued
	}
	switch err = errors.Join(err, file.Close()); {
	case cli.DiskFull(err) && a.Dir != "":
		return cli.IOf("%w: free some room on its disk; %s", err, goOn)
	case err != nil:
		return err
	case snap.State == "interrupted" && a.Dir != "":
		a.Log.Info("the audit was interrupted", slog.String("audit", a.Dir), slog.String("next", goOn))
		return &cli.Error{Code: cli.CodeInterrupted}
	case snap.State != "done":
		a.interrupted, a.partial = snap.State == "interrupted", snap.Reason
	}
	return nil
}

// open returns the options of the crawl, with a state if a crawl continues.
func (a *audit) open() (crawl.Options, error) {
	o := a.Options
	if a.Dir == "" {
		return o, nil
	}
	file, seeds := filepath.Join(a.work, seedsName), strings.Join(slices.Sorted(slices.Values(a.Seeds)), "\n")
	state, err := crawl.OpenState(crawl.StateConfig{Dir: a.work, Version: cli.Version(), Log: a.Log})
	if err == nil && (a.Options.Output.Overwrite || state.Done() && !state.Obtained()) {
		o.Output.Overwrite, err = true, cmp.Or(state.Close(), fs.ErrNotExist)
	}
	switch old, missing := os.ReadFile(file); {
	case errors.Is(err, fs.ErrNotExist):
		o.StateDir = a.work
		return o, cli.Write("--output", os.WriteFile(file, []byte(seeds), 0o600))
	case err != nil:
		return o, err
	case missing == nil && string(old) != seeds:
		err = cli.Usagef("%s has an audit of %s that was interrupted: give the same URLs to go on with it, or another --output", a.Dir, strings.ReplaceAll(string(old), "\n", " "))
		return o, errors.Join(err, state.Close())
	}
	queued, pages := state.Left()
	a.Log.Info("going on with the audit", slog.Int64("visited", pages), slog.Int64("queued", queued))
	return state.Options(), nil
}

// handle is the handler of the crawl.
func (a *audit) handle(_ context.Context, p *crawl.Page) error {
	switch {
	case p.Label() == labelRobots:
		return p.Emit(facts.ReadRobots(p))
	case p.Label() == labelOutside:
		return outside(p)
	case p.Kind == "sitemap":
		return p.Emit(facts.ReadMap(p))
	}
	origin := facts.Origin(p.URL.String())
	f := facts.Read(p, func(url string, kind facts.Kind) facts.Kind { return a.kindOf(p, origin, url, kind) })
	if _, again := a.asked.LoadOrStore(origin, true); !again { // robots.txt as a page
		p.Follow(origin+"/robots.txt", crawl.WithLabel(labelRobots), crawl.WithoutScope(), crawl.WithAgain("audit"))
	}
	if f.To != "" {
		f.Links = append(f.Links, facts.Link(a.kindOf(p, origin, f.To, facts.Anchor), f.To, ""))
	}
	return p.Emit(f)
}

// kindOf returns the kind of a link: kind, or one that says that the link leads out of scope. In that case it requests
// the target if External is set.
func (a *audit) kindOf(p *crawl.Page, origin, url string, kind facts.Kind) facts.Kind {
	if !a.prefix && strings.HasPrefix(url, origin+"/") {
		return kind
	}
	switch p.Follow(url).Reason {
	case "other_host", "other_domain", "other_prefix":
	case "":
		return kind
	default:
		return facts.Unchecked
	}
	switch known := a.known[url]; {
	case !a.External:
	case known != nil:
		if _, again := a.asked.LoadOrStore(url, true); !again {
			_ = p.Emit(known) // an error means a full page: the next audit checks the link
		}
	default:
		p.Follow(url, crawl.WithLabel(labelOutside), crawl.WithMethod(http.MethodHead), crawl.WithoutScope())
	}
	return facts.Out
}

// outside handles the response of a link's target out of scope. It repeats a HEAD request as GET if the response may
// differ, since many servers do not support HEAD.
func outside(p *crawl.Page) error {
	f := facts.New(p)
	f.Kind, f.At = facts.Outside, p.FetchedAt.Unix()
	hops, _ := strconv.Atoi(p.Meta(metaHops)) // zero without metadata
	again := []crawl.FollowOption{crawl.WithLabel(labelOutside), crawl.WithoutScope(), crawl.WithMeta(metaHops, strconv.Itoa(hops+1))}
	switch {
	case f.To != "" && hops < maxHops:
		p.Follow(f.To, append(again, crawl.WithMethod(http.MethodHead))...)
	case p.Method == http.MethodHead && (f.Status >= 400 && f.Status != http.StatusTooManyRequests || slices.Contains([]string{"protocol", "decode", "truncated", "timeout"}, f.Class)):
		p.Follow(f.URL, again...)
	}
	return p.Emit(f)
}

// factsFile is the sink of facts. For a record that no handler saw, such as that of a URL disallowed by robots.txt, it
// writes facts made from the record.
type factsFile struct{ *sink.Lines }

// Mark returns how far the file is committed, under a name that does not change when the directory moves.
func (w factsFile) Mark() record.Position {
	p := w.Lines.Mark()
	p.Path = factsName
	return p
}

// Write writes facts for a record that has an error and no items.
func (w factsFile) Write(r *record.Record) error {
	if len(r.Items) > 0 || r.Error == nil {
		return nil
	}
	f := &facts.Page{URL: r.URL, Status: r.Status, Class: r.Error.Class, Message: r.Error.Message}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return w.WriteItem(r, record.Item{Value: f, JSON: text})
}

// judge applies the rules to the facts, unless the crawl has failed.
func (a *audit) judge(failed error) (*report.Report, error) {
	if failed != nil {
		return nil, failed
	}
	site := &rules.Site{Seeds: a.Seeds, Partial: a.partial != "", External: a.External}
	// A heap may double before it is collected. For a large site that may be more than the machine can spare.
	if limit := debug.SetMemoryLimit(-1); limit > mostMemory {
		debug.SetMemoryLimit(mostMemory)
		defer debug.SetMemoryLimit(limit)
	}
	if err := rules.Read(filepath.Join(a.work, factsName), site); err != nil {
		return nil, cli.IO(err)
	}
	if site.Totals.Pages == 0 {
		return nil, cli.ErrNothing
	}
	return report.New(site, a.began, a.partial, a.skip), nil
}

// fail returns err. If that says that nothing was obtained, or that hosts refuse, it removes what it has of an older
// audit, except for the file that marks it as done, and writes a failure for CI. The crawl stays if it has URLs left.
func (a *audit) fail(err error) error {
	if a.Dir == "" || !slices.Contains([]int{cli.CodeNothing, cli.CodeBlocked}, cli.CodeOf(err)) {
		return err
	}
	if a.left == 0 {
		_ = os.RemoveAll(a.work) // if this fails, so does the write below
	}
	for _, form := range report.Forms[:len(report.Forms)-1] {
		_ = os.Remove(filepath.Join(a.Dir, form.Name))
	}
	return cmp.Or(a.file(report.JUnit, &report.Report{Failed: cli.Message(err)}), err)
}

// file writes one form of the report into the directory.
func (a *audit) file(form report.Form, r *report.Report) error {
	return cli.Write("--output", atomicfile.Replace(filepath.Join(a.Dir, form.Name), 0o666, func(w io.Writer) error { return form.Write(r, w) }))
}

// write writes all forms of the report into the directory, last the one that marks the audit as done, and one form to
// Out. The state of an audit that is replaced goes first.
func (a *audit) write(r *report.Report) error {
	r.Dir = a.Dir
	if a.Dir != "" {
		if state := filepath.Join(a.Dir, stateDir); a.work != state {
			if err := errors.Join(os.RemoveAll(state), os.Rename(a.work, state)); err != nil {
				return cli.Write("--output", err)
			}
		}
		for _, form := range report.Forms {
			if err := a.file(form, r); err != nil {
				return err
			}
		}
	}
	if a.JSON {
		return cli.Output(report.WriteJSON(r, a.Out))
	}
	if a.Quiet {
		return nil
	}
	var b strings.Builder
	if err := report.WriteText(r, &b); err != nil {
		return err
	}
	_, err := io.WriteString(a.Out, cli.Clean(b.String()))
	return cli.Output(err)
}
