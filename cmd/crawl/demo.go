package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"

	"github.com/treadlight/crawl/internal/lab/testsite"
)

// demoCommand returns the command that shows the crawler at work without a network. Only its hosts are made up; sockets
// and engine are real.
func demoCommand(s cli.Streams) *cobra.Command {
	length := 20 * time.Second // by then the outage is over and most hosts are done
	cmd := verb("demo")
	flags.DurationVar(cmd.Flags(), &length, "for", length, "end after that long")
	// The demo decides itself what it crawls and as whom.
	settings := flags.Add(cmd, false, func(f *config.Flag) bool {
		g := flags.GroupOfSetting(f.Path)
		return g != flags.GroupSeeds && g != flags.GroupFetch && g != flags.GroupAccess && f.Path != "state.dir"
	})
	for _, ours := range demoFlags(length) {
		if f := cmd.Flags().Lookup(ours.Name); f != nil {
			f.DefValue = ours.Value
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if length < time.Second {
			return cli.Usagef("--for %v: give at least 1s", length)
		}
		loaded, err := flags.Load(config.Sources{
			// Twenty seconds stand for an hour: the outage lasts five of them, and a host's rate is learned in larger
			// steps.
			Env:   []string{"CRAWL_RATELIMIT_OPEN_STATE_DURATION=4s", "CRAWL_RATELIMIT_AIMD_INCREASE=0.3"},
			Flags: append(demoFlags(length), settings.Given...),
		})
		if err != nil {
			return err
		}
		return demo(cmd.Context(), s, loaded)
	}
	return cmd
}

func demoFlags(length time.Duration) []config.FlagValue {
	return []config.FlagValue{
		{Name: "rate", Value: "2"},
		{Name: "max-time", Value: length.String()},
		{Name: "contact", Value: assembly.Homepage},
		{Name: "output", Value: os.DevNull},
	}
}

// demo crawls the hosts and prints what the crawler and the hosts saw of each other.
func demo(ctx context.Context, s cli.Streams, loaded *config.Loaded) error {
	site, err := testsite.New(testsite.Mixed())
	if err != nil {
		return fmt.Errorf("build the demo's hosts: %w", err)
	}
	if err := site.Listen(); err != nil {
		return cli.IOf("start the demo's hosts: %w", err)
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	// The hosts outlive the crawl, even an interrupted one: the job handles signals, and only stop ends the hosts.
	go func() { served <- site.Run(serving) }()

	if !loaded.Config.Log.Quiet() {
		cli.Say(s.Err, "crawling %d hosts on this machine for %v at most; Ctrl-C ends it sooner\n\n", site.Hosts(), loaded.Config.MaxTime)
	}
	j := &job.Job{Options: job.Options{
		Streams: s, Settings: &loaded.Config, Seeds: site.URLs(),
		Names: func() map[string]string { // roles say more than addresses
			report, names := site.Report(), make(map[string]string)
			for _, h := range report.Hosts {
				names[strings.TrimPrefix(h.URL, "http://")] = h.Name
			}
			return names
		},
		Fleeting: true, // a later run would not find its hosts
		Over:     "the demo is over; --for lets it go on for longer",
	}}

	crawlErr := j.Run(ctx)
	stop()
	if err := <-served; err != nil {
		return cli.IO(err)
	}
	if e, ok := errors.AsType[*cli.Error](crawlErr); ok && (e.Code == cli.CodeLimit || e.Code == cli.CodeInterrupted) {
		crawlErr = nil // a demo ends by its time or by an interrupt
	}
	if crawlErr != nil {
		return crawlErr
	}
	// Written last, and to standard output, because this is the result of the demo; the crawler's own report is not.
	report := site.Report()
	var b strings.Builder
	b.WriteString("\nWhat the hosts saw:\n")
	writeHosts(&b, &report, max(cli.WidthOf(s.Out), cli.UsualWidth))
	_, err = io.WriteString(s.Out, b.String())
	return cli.Output(err)
}
