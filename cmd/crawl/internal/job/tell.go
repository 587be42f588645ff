package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/view"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/summary"
	"github.com/treadlight/crawl/internal/records/tree"
	"github.com/treadlight/crawl/record"
)

// liveView returns the live view of a crawl. It is nil where there is no terminal, where the settings exclude it, and
// where lines on the terminal are to be read as they come.
func (j *Job) liveView(c *assembly.Crawler, interrupt func()) *view.Live {
	out, ok := j.Err.(*os.File)
	switch {
	case !ok || !cli.IsTerminal(out) || !j.term.Live() || cli.LookupEnv(j.Env, "TERM") == "",
		j.Settings.Log.Progress != "auto" || j.Settings.Log.Quiet() || j.Settings.Log.Format != "text",
		j.level.Level() < slog.LevelInfo, // debug messages are there to be read
		linesShown(j.Settings, j.Streams.Out):
		return nil
	}
	l := &view.Live{
		Term: j.term, Log: j.log, Env: j.Env, Out: out, Names: j.Names, Title: j.title(),
		Crawl: view.Crawl{
			Snapshot: c.Snapshot, Paused: c.Paused, Pause: c.Pause, Resume: c.Resume, Halted: c.Halted(), Interrupt: interrupt,
		},
	}
	// Keys come from standard input, or from the terminal itself if standard input is something else.
	if f, ok := j.Streams.In.(*os.File); ok && cli.IsTerminal(f) {
		if slices.Contains(j.Settings.Seeds.Files, sink.Stdout) { // seeds are typed there
			return nil
		}
		l.In = f
	} else if tty, err := os.Open("/dev/tty"); err == nil {
		j.tty, l.In = tty, tty
	}
	return l
}

// linesShown reports whether records, snapshots or events may appear on the screen that shows the messages. They do on
// standard error, and on standard output unless it is a file or the null device; behind a pipe there may be a pager.
func linesShown(settings *config.Config, out io.Writer) bool {
	if settings.Output.Events == sink.Stdout || settings.Output.Skipped == sink.Stdout {
		return true
	}
	if settings.Output.Path != sink.Stdout && settings.Stats.Path != sink.Stdout {
		return false
	}
	f, ok := out.(*os.File)
	if !ok {
		return true
	}
	info, err := f.Stat()
	if err != nil {
		return true
	}
	null, err := os.Stat(os.DevNull)
	return !info.Mode().IsRegular() && (err != nil || !os.SameFile(info, null))
}

// title returns what is crawled, for the head of the live view.
func (j *Job) title() string {
	switch {
	case j.Names != nil:
		return "crawl demo"
	case j.Resumed:
		return "crawl resume " + j.state.Dir()
	case len(j.Seeds) == 0:
		return "crawl " + strings.Join(j.Settings.Seeds.Files, " ")
	case len(j.Seeds) == 1:
		return "crawl " + j.Seeds[0]
	}
	return fmt.Sprintf("crawl %s and %d more", j.Seeds[0], len(j.Seeds)-1)
}

// progress shows how a crawl is doing until ctx ends: on the whole screen, in a status line, or, where there is no
// terminal, in a log line at every interval of the statistics.
func (j *Job) progress(ctx context.Context, c *assembly.Crawler, live *view.Live) {
	if j.tty != nil {
		defer func() { _ = j.tty.Close() }() // it was only read
	}
	if live == nil || !live.Run(ctx) {
		view.Progress(ctx, j.term, j.log, view.Crawl{Snapshot: c.Snapshot, Paused: c.Paused, Halted: c.Halted()}, j.Settings.Stats.Interval)
	}
}

func (j *Job) tell(final *pipeline.Snapshot) error {
	switch {
	case j.Settings.Log.Quiet():
		return nil
	case j.Settings.Log.Format != "json":
		return j.report(final, j.written(j.events.summary))
	}
	log := j.log
	if events := j.written(j.events.summary); events != "" {
		log = log.With(slog.String("events", events))
	}
	if skipped := j.written(j.skipped.summary); skipped != "" {
		log = log.With(slog.String("skipped", skipped))
	}
	if final.Round != 0 {
		log = log.With(slog.Int("round", final.Round), slog.Any("changes", final.Changes))
	}
	log.Info("the crawl ended",
		slog.String("state", final.State.String()), slog.String("reason", final.Reason),
		slog.Float64("elapsed_seconds", final.ElapsedSeconds), slog.Int64("pages", final.Pages),
		slog.Int64("records", final.Records), slog.Int64("errors", final.Errors),
		slog.Int64("requests", final.Requests), slog.Int64("retries", final.Retries),
		slog.Int64("bytes", final.Bytes), slog.Int64("queued", final.Frontier.Queued), slog.String("go_on", j.goOn(final.State, final.Reason)))
	return nil
}

// written returns what a file says of itself; "" if the crawl was cut off, since somebody may still write to it then.
func (j *Job) written(summary func() string) string {
	if j.cut.Load() {
		return ""
	}
	return summary()
}

// tellNow does what SIGUSR1 requests: it writes a line to the file of --stats, or a report if there is no such file;
// then it requests a checkpoint.
func (j *Job) tellNow(c *assembly.Crawler) error {
	if j.Settings.Stats.Path != "" {
		if err := j.stats.write(); err != nil {
			return err
		}
		j.log.Info("the state was written", slog.String("file", j.stats.name))
		return j.checkpoint(c)
	}
	snap := c.Snapshot()
	return errors.Join(j.report(&snap, ""), j.checkpoint(c)) // the counts of events are not read while events are written
}

// checkpointPatience is how long a signal waits for its checkpoint, because another signal may follow.
const checkpointPatience = 10 * time.Second

func (j *Job) checkpoint(c *assembly.Crawler) error {
	if j.state == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkpointPatience)
	defer cancel()
	err := c.Checkpoint(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		j.log.Warn("the checkpoint is not complete yet", slog.Duration("after", checkpointPatience))
		return nil
	case err == nil:
		j.log.Info("checkpoint written", slog.String("state", j.state.Dir()))
	}
	return err
}

// report prints what a person wants to know, at the end or when requested. It names the place of the records only if
// that is a file, and not after a failed crawl, whose error names it.
func (j *Job) report(snap *pipeline.Snapshot, events string) error {
	r := view.Report{Snap: snap, Columns: j.term.Columns(), Events: events, GoOn: j.goOn(snap.State, snap.Reason)}
	under, failed := snap.State == pipeline.EndNone, snap.State == pipeline.EndFailed
	if j.Resumed {
		_, r.Before = j.state.Left()
		if !under && !j.cut.Load() { // nobody writes records any more
			r.InAll = j.out.Mark().Records
		}
	}
	if !under {
		r.Skipped = j.written(j.skipped.summary)
		if !j.Settings.Fleet.Shared() && !j.Resumed { // another process, or an earlier run, may have had the host
			r.Unused = j.read.Unused()
		}
		if j.Settings.Output.Format == string(sink.URLs) && !j.cut.Load() {
			r.List, r.Lines = true, j.out.Mark().Records
		}
	}
	switch {
	case snap.State == pipeline.EndLimit && strings.HasPrefix(snap.Reason, "max_time "):
		r.Over = j.Over
	case snap.State == pipeline.EndDone && j.nothing:
		r.Over = "nothing obtained"
	}
	r.Items = j.itemSummary(under)
	path, archive := j.Settings.Output.Path, j.archiveDir()
	if path != sink.Stdout && path != os.DevNull && path != archive && !failed {
		if r.Records = path; j.Settings.Output.Format == string(sink.Markdown) {
			r.Pages, r.Records = j.markdown(), ""
		} else if j.itemsAlone() {
			r.Items, r.Records = r.Items+" in "+path, ""
		}
	}
	if !failed {
		r.Archive = archive
	}
	// The command that reports more than this summary does, once the crawl has ended.
	spec := sink.Format(j.Settings.Output.Format).Spec()
	switch {
	case under || snap.Pages == 0:
	case j.itemsAlone():
	case j.state != nil:
		r.Closer = "crawl report " + cli.ShellWord(j.state.Dir())
	case r.Records != "" && spec.Reportable():
		r.Closer = "crawl report " + cli.ShellWord(r.Records)
	}
	if j.state == nil && !j.Fleeting && !j.Settings.Fleet.Shared() {
		r.Left = ", not visited; a crawl begun with -o DIR/ can go on by crawl resume DIR"
	}
	if j.state != nil && r.GoOn == "" && !under {
		r.Kept = j.state.Dir()
	}
	if j.Names != nil {
		r.Names = j.Names()
	}
	if err := r.Write(j.term); err != nil && !j.term.Gone(err) {
		return cli.IOf("write the report: %w", err)
	}
	return nil
}

// markdown returns how many pages the tree of Markdown has, and where; "" while it is not complete.
func (j *Job) markdown() string {
	t, ok := j.out.Durable.(*tree.Writer)
	if !ok || t.Pages() == "" {
		return ""
	}
	return fmt.Sprintf("%s in %s, listed in %s", t.Pages(), filepath.Dir(j.Settings.Output.Path), tree.Index)
}

// goOn returns the command that resumes a crawl, or "" if the crawl is not kept or is done. If max_pages ended it, the
// command doubles max_pages, which counts the pages of all runs. If only blocked hosts are left, it opens the console,
// which can unblock them.
func (j *Job) goOn(end pipeline.End, reason string) string {
	if j.state == nil || end == pipeline.EndNone || end == pipeline.EndDone {
		return ""
	}
	command := "crawl resume " + cli.ShellWord(j.state.Dir())
	switch {
	case enoughPages(end, reason):
		most, _ := strconv.Atoi(strings.Fields(reason)[1])
		_, had := j.state.Left() // of all runs, which --max-pages counts
		command += fmt.Sprintf(" --max-pages %d", 2*max(int64(most), had))
	case allBlocked(reason):
		command += " --listen " + cli.ShellWord(cmp.Or(j.Settings.Listen.Addr, freePort))
	}
	return command
}

// maxWitnessed is how many failures of seeds the error of a crawl lists: of a thousand dead seeds, three show what is
// wrong.
const maxWitnessed = 3

// destination passes records on to a sink. It keeps why the first seeds failed, which a person wants to know when
// nothing was obtained. Like every sink it has one writer; the failures are read after the crawl.
type destination struct {
	record.Durable
	name string // the state's name for the destination
	seen []string
	next string    // what a person can do about the first of seen
	via  int       // how many of seen failed at the proxy
	good bool      // a page was unchanged (304) or was answered with 2xx, even if the settings kept it out
	lock io.Closer // on the file; nil means that it needs none
}

func (w *destination) Close() (err error) {
	if w == nil {
		return nil
	}
	if w.Durable != nil {
		err = w.Durable.Close()
	}
	if w.lock != nil {
		err = errors.Join(err, w.lock.Close())
		w.lock = nil
	}
	return err
}

// Mark returns how far the destination is committed, under the state's name for it.
func (w *destination) Mark() record.Position {
	p := w.Durable.Mark()
	p.Path = w.name
	return p
}

func (w *destination) Write(r *record.Record) error {
	w.good = w.good || r.Status/100 == 2 || r.Status == http.StatusNotModified && r.Error == nil
	if r.Depth == 0 && r.Status/100 != 2 && len(w.seen) < maxWitnessed {
		why := fmt.Sprintf("status %d", r.Status)
		if meaning := summary.Meaning(strconv.Itoa(r.Status)); r.Error != nil {
			why = r.Error.Message
		} else if r.RedirectTo != "" {
			why += ", a redirect to " + r.RedirectTo
		} else if meaning != "" {
			why += " (" + meaning + ")"
		}
		if w.seen = append(w.seen, r.URL+": "+why); len(w.seen) == 1 {
			w.next = remedy(r)
		}
		if r.ErrorClass() == outcome.Proxy.String() {
			w.via++
		}
	}
	return w.Durable.Write(r)
}

// Takes implements [record.ItemSink]: a destination takes the items that its sink takes.
func (w *destination) Takes(value any) bool {
	to, ok := w.Durable.(record.ItemSink)
	return ok && to.Takes(value)
}

func (w *destination) WriteItem(r *record.Record, item record.Item) error {
	return w.Durable.(record.ItemSink).WriteItem(r, item)
}

// failures returns the failures of seeds and what to do, each on a line of its own that begins with the line feed; "" if
// there are none.
func (w *destination) failures() string {
	if len(w.seen) == 0 {
		return ""
	}
	return strings.TrimRight("\n"+strings.Join(w.seen, "\n")+"\n"+w.next, "\n")
}
