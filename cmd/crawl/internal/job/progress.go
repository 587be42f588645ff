package job

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/live"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/records/sink"
)

// liveView is the live view of a crawl; nil where a person would rather have something else:
// no terminal, no wish for it, or a terminal on which lines are to be read as they come.
func (j *Job) liveView(c *crawl.Crawler, interrupt func()) *live.View {
	out, ok := j.Err.(*os.File)
	switch {
	case !ok || !terminal.IsTerminal(out) || !j.term.Live() || terminal.LookupEnv(j.Env, "TERM") == "":
		return nil
	case j.Settings.Log.Progress != "auto" || j.Settings.Log.Quiet() || j.Settings.Log.Format != "text":
		return nil
	case j.level.Level() < slog.LevelInfo: // who asks for every step wants to read them
		return nil
	case j.linesShown():
		return nil
	}
	in, shared := j.keyboard()
	if shared {
		return nil
	}
	l := &live.View{
		Term: j.term, Log: j.log, Env: j.Env, Out: out, Names: j.Names, Title: j.title(),
		Crawl: live.Crawl{
			Snapshot: c.Snapshot, Paused: c.Paused, Pause: c.Pause, Resume: c.Resume,
			Halted: c.Halted(), Interrupt: interrupt,
		},
	}
	if in != nil { // a nil file would be an input
		l.In = in
	}
	return l
}

// linesShown reports whether records, snapshots or events may be on the same screen: on
// standard output, unless that is a file, for behind a pipe there may be a pager; or beside
// the messages.
func (j *Job) linesShown() bool {
	if j.Settings.Output.Events == sink.Stdout {
		return true
	}
	if j.Settings.Output.Path != sink.Stdout && j.Settings.Stats.Path != sink.Stdout {
		return false
	}
	f, ok := j.Streams.Out.(*os.File)
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

// keyboard is where keys come from: standard input, or the terminal itself if that is
// something else; nil if there is none. It is shared if seeds are typed there.
func (j *Job) keyboard() (in *os.File, shared bool) {
	f, ok := j.Streams.In.(*os.File)
	if ok && terminal.IsTerminal(f) {
		return f, slices.Contains(j.Settings.Seeds.Files, sink.Stdout)
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return nil, false
	}
	j.tty = tty
	return tty, false
}

// title is what is crawled, as the head of the view has it.
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

// progress shows how a crawl is doing until ctx ends: on the whole screen, in a status line,
// or a log line now and then where there is no terminal.
func (j *Job) progress(ctx context.Context, c *crawl.Crawler, view *live.View) {
	if j.tty != nil {
		defer func() { _ = j.tty.Close() }() // it was only read
	}
	if view != nil && view.Run(ctx) {
		return
	}
	live.Progress(ctx, j.term, j.log, live.Crawl{Snapshot: c.Snapshot, Paused: c.Paused, Halted: c.Halted()}, j.Settings.Stats.Interval)
}
