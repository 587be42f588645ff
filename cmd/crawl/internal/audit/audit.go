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
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/audit/rules"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/clock"
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
	FailOn   []string
	JSON     bool // write JSON to Out instead of text
	Quiet    bool
	Out      io.Writer
	Term     *cli.Terminal
	Log      *slog.Logger
}

// The files in Dir.
const (
	stateDir = "state"
	jsonFile = "audit.json"
)

// Run audits a site. Its error carries the exit code, also that of findings.
func Run(ctx context.Context, cfg Config) error {
	a := &audit{Config: cfg, began: clock.System().Now()}
	defer func() {
		if a.temp {
			_ = os.RemoveAll(a.work) // what remains is in a temporary directory
		}
	}()
	if err := a.prepare(); err != nil {
		return err
	}
	old, err := a.older()
	if err != nil {
		return err
	}
	if err := a.crawl(ctx); err != nil {
		return err
	}
	result, err := a.judge()
	if err != nil {
		return err
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
		return &cli.Error{Code: cli.CodeFindings, Err: fmt.Errorf("%s that --fail-on names", cli.Plural(result.Failing, "finding"))}
	}
	return nil
}

// audit is an audit in progress.
type audit struct {
	Config

	began  time.Time
	work   string // the directory of the facts
	temp   bool   // work is temporary, and removed in the end
	skip   func(*rules.Finding) bool
	failOn func(*rules.Finding) bool
	known  map[string]*facts.Page // targets of links out of scope, from an older audit

	partial     string // why not everything was visited; empty means that it was
	interrupted bool
}

// prepare checks the arguments and creates the directories.
func (a *audit) prepare() (err error) {
	if a.skip, err = report.Selector(a.Skip, false); err != nil {
		return cli.Usagef("--skip: %w", err)
	}
	if a.failOn, err = report.Selector(a.FailOn, true); err != nil {
		return cli.Usagef("--fail-on: %w", err)
	}
	if a.Dir == "" {
		if a.work, err = os.MkdirTemp("", "crawl-audit-"); err != nil {
			return cli.Open("a directory for temporary files", err)
		}
		a.temp = true
		return nil
	}
	a.work = filepath.Join(a.Dir, stateDir)
	done := filepath.Join(a.Dir, jsonFile)
	if _, err := os.Stat(done); err == nil { // an audit that can continue has no report yet
		if !a.Options.Output.Overwrite {
			return cli.IOf("%s has an audit that is done: add --overwrite to replace it, or give another directory and compare by --against %s", a.Dir, a.Dir)
		}
		if old := filepath.Clean(a.Against); a.Against != "" && (old == filepath.Clean(a.Dir) || old == done) {
			return cli.Usagef("--against %s is what --overwrite replaces: give another --output", a.Against)
		}
		if err = os.RemoveAll(a.work); err == nil {
			err = os.Remove(done)
		}
		if err != nil {
			return cli.Write("--output", err)
		}
	}
	if err = os.MkdirAll(a.Dir, 0o777); err == nil { // the umask of the user takes bits away
		err = os.MkdirAll(a.work, 0o700)
	}
	if err != nil {
		return cli.Open("--output", err)
	}
	return nil
}

// older returns the audit to compare with, or nil. What that audit knows of other sites is reused for a day.
func (a *audit) older() (*report.Report, error) {
	if a.Against == "" {
		return nil, nil
	}
	path := a.Against
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		a.known = readKnown(filepath.Join(path, stateDir, factsName), a.began)
		path = filepath.Join(path, jsonFile)
	}
	old, err := report.Read(path)
	if err != nil {
		return nil, cli.IOf("--against %s: %w", a.Against, err)
	}
	return old, nil
}

// crawl visits the site, or continues an earlier crawl.
func (a *audit) crawl(ctx context.Context) error {
	o, state, err := a.open()
	if err != nil {
		return err
	}
	if state != nil && state.Done() {
		return state.Close()
	}
	file, err := openFacts(a.work, state)
	if err != nil {
		err = cli.Open("the facts of the audit", err)
		if state != nil {
			err = errors.Join(err, state.Close())
		}
		return err
	}
	g := &gatherer{external: a.External, prefix: o.Scope.Mode == "prefix", known: a.known}
	o.Sinks, o.OnPage, o.Log, o.Version = []record.Sink{file}, g.handle, job.OfProgram(a.Log), cli.Version()
	c, err := crawl.New(o)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	var every time.Duration
	if !a.Quiet {
		every = 10 * time.Second
	}
	err = job.Supervise(ctx, a.Term, a.Log, every, c, func(ctx context.Context) error { return c.Run(ctx, a.Seeds...) })
	err = errors.Join(err, file.Close())
	snap := c.Snapshot()
	switch {
	case err != nil:
		return err
	case snap.State == "interrupted" && a.Dir != "":
		a.Log.Info("the audit was interrupted; go on with it by the same command", slog.String("audit", a.Dir))
		return &cli.Error{Code: cli.CodeInterrupted}
	case snap.State == "interrupted":
		a.interrupted = true
	}
	if snap.State != "done" {
		a.partial = snap.Reason
	}
	if snap.Pages == 0 && state == nil {
		return cli.ErrNothing
	}
	return nil
}

// open returns the options of the crawl, and the state if a crawl continues.
func (a *audit) open() (crawl.Options, *crawl.State, error) {
	o := a.Options
	if a.temp {
		return o, nil, nil
	}
	state, err := crawl.OpenState(crawl.StateConfig{Dir: a.work, Version: cli.Version(), Log: a.Log})
	if errors.Is(err, fs.ErrNotExist) {
		o.StateDir = a.work
		_ = os.Remove(filepath.Join(a.work, factsName)) // of a run that was killed before its crawl began
		return o, nil, nil
	}
	if err != nil {
		return o, nil, err
	}
	queued, pages := state.Left()
	a.Log.Info("going on with the audit", slog.Int64("visited", pages), slog.Int64("queued", queued))
	return state.Options(), state, nil
}

// mostMemory is the size of the heap, in bytes, above which garbage is collected more often. A site of 100,000 pages
// with 50 links each needs half of it.
const mostMemory = 400 << 20

// judge applies the rules to the facts.
func (a *audit) judge() (*report.Report, error) {
	file, err := os.Open(filepath.Join(a.work, factsName))
	if err != nil {
		return nil, cli.IO(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	site := &rules.Site{Partial: a.partial != "", External: a.External}
	for _, seed := range a.Seeds {
		if u, err := canonical.ParseTyped(seed); err == nil {
			site.Seeds = append(site.Seeds, u.String())
		}
	}
	// A heap may double before it is collected. For a large site that may be more than the machine can spare.
	if limit := debug.SetMemoryLimit(-1); limit > mostMemory {
		debug.SetMemoryLimit(mostMemory)
		defer debug.SetMemoryLimit(limit)
	}
	if err := rules.Read(file, site); err != nil {
		return nil, cli.IO(err)
	}
	return report.New(site, a.began, a.partial, a.skip), nil
}

// write writes all forms of the report into the directory, last the one that marks the audit as done, and one form to
// Out.
func (a *audit) write(r *report.Report) error {
	if a.Dir != "" {
		for _, form := range report.Forms {
			if err := atomicfile.Replace(filepath.Join(a.Dir, form.Name), 0o666, func(w io.Writer) error { return form.Write(r, w) }); err != nil {
				return cli.Write("--output", err)
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
	if err := report.WriteText(r, &b, a.Dir); err != nil {
		return err
	}
	_, err := io.WriteString(a.Out, cli.Clean(b.String()))
	return cli.Output(err)
}
