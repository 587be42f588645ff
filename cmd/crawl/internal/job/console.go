package job

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/build"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
)

// openConsole opens the socket of --listen, so that one that is taken costs nothing.
func (j *Job) openConsole() (err error) {
	if j.Settings.Listen.Addr == "" {
		return nil
	}
	j.console, err = crawl.Listen(crawl.ListenConfig{
		Addr: j.Settings.Listen.Addr, Token: j.Settings.Listen.Token, Version: build.Version(), Log: j.log,
		OnStop: func() { j.in.stop() },
	})
	if err != nil {
		return exit.IO(fmt.Errorf("open --listen: %w", exit.Cause(err)))
	}
	return nil
}

// serve answers on the socket until ctx ends. A socket that fails costs the sight of the
// crawl and not the crawl.
func (j *Job) serve(ctx context.Context, c *crawl.Crawler) {
	if j.console == nil {
		return
	}
	if err := j.console.Serve(ctx, c); err != nil {
		j.log.Error("the console has failed; the crawl goes on without it", slog.Any("error", err))
	}
}

// onEvent is who wants to know of events; nil if nobody does, see [eventsWriter.hook].
func (j *Job) onEvent() func(crawl.Event) {
	file := j.events.hook()
	switch {
	case j.console == nil:
		return file
	case file == nil:
		return j.console.Event
	}
	return func(e crawl.Event) {
		file(e)
		j.console.Event(e)
	}
}
