package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/internal/lab/testsite"
)

// testsiteCommand serves hosts to test any crawler on, ours included.
func testsiteCommand(s streams) *cobra.Command {
	var o siteOptions
	cmd := &cobra.Command{
		Use:                   "testsite [flags]",
		Short:                 "Serve made-up hosts to test how polite a crawler is",
		Long:                  testsiteLong,
		Example:               testsiteExample,
		DisableFlagsInUseLine: true,
		Args:                  noArgs,
		ValidArgsFunction:     cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			return o.serve(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.hosts, "hosts", 1, "hosts, each on its own address")
	f.IntVar(&o.pages, "pages", 100, "pages per host")
	f.DurationVar(&o.latency, "latency", 0, "time until an answer")
	f.Float64Var(&o.limit, "limit", 0, "requests per second each host allows; 0 = all")
	f.IntVar(&o.burst, "burst", 0, "requests that may come ahead of --limit")
	f.BoolVar(&o.retryAfter, "retry-after", false, "name the wait in refusals")
	f.Uint64Var(&o.seed, "seed", 1, "what pages and links are drawn from")
	f.StringVar(&o.preset, "preset", "", "a `word` instead of the flags above: mixed, uniform or headofline")
	f.StringVar(&o.file, "scenario", "", "read the hosts from this YAML or JSON `file` instead")
	f.StringVar(&o.file, "file", "", "the older name of --scenario: a `file`")
	f.IntVar(&o.port, "port", 0, "port of every host; 0 = that of the file, or a free one")
	f.DurationVar(&o.time, "for", 0, "stop after that long; 0 = when interrupted")
	f.StringVar(&o.reportTo, "report", "", "write the report as JSON to this `file`, whole or not at all; - = the same as --json")
	f.BoolVar(&o.asJSON, "json", false, "print the report as JSON, and the addresses on standard error")
	f.BoolVar(&o.print, "print", false, "print the site's YAML and serve nothing")
	return cmd
}

// siteOptions are the flags of the verb.
type siteOptions struct {
	file, preset  string
	given         string // the flag that names the file
	reportTo      string
	hosts, pages  int
	latency, time time.Duration
	limit         float64
	burst, port   int
	retryAfter    bool
	seed          uint64
	asJSON, print bool
}

// check refuses what would be ignored, and zeros that the site takes for a default.
func (o *siteOptions) check(cmd *cobra.Command) error {
	for _, f := range []struct {
		name  string
		value int
	}{{"hosts", o.hosts}, {"pages", o.pages}} {
		if f.value < 1 {
			return usage(fmt.Errorf("--%s %d: give at least 1", f.name, f.value))
		}
	}
	if err := o.checkFiles(cmd.Flags().Changed); err != nil {
		return err
	}
	other := ""
	switch {
	case o.file != "":
		other = o.given
	case o.preset != "" && o.preset != "uniform":
		other = "--preset " + o.preset
	default:
		return nil
	}
	for _, name := range []string{"hosts", "pages", "latency", "limit", "burst", "retry-after", "seed"} {
		if cmd.Flags().Changed(name) {
			return usage(fmt.Errorf("--%s has no effect with %s: remove one of them, or print the site with --print and change it there", name, other))
		}
	}
	return nil
}

// config is the site that the flags describe.
func (o *siteOptions) config() (testsite.Config, error) {
	var cfg testsite.Config
	switch {
	case o.file != "" && o.preset != "":
		return cfg, usage(fmt.Errorf("%s and --preset both name a site: give one of them", o.given))
	case o.file != "":
		var err error
		if cfg, err = o.readScenario(); err != nil {
			return cfg, err
		}
	case o.preset == "mixed":
		cfg = testsite.Mixed()
	case o.preset == "headofline":
		cfg = testsite.HeadOfLine(5)
	case o.preset == "" || o.preset == "uniform":
		cfg = o.uniform()
	default:
		return cfg, usage(fmt.Errorf("--preset %q: give mixed, uniform or headofline", o.preset))
	}
	if o.port != 0 {
		cfg.Port = o.port
	}
	return cfg, nil
}

// uniform is the site of the flags: hosts that are all the same.
func (o *siteOptions) uniform() testsite.Config {
	cfg := testsite.Uniform(o.hosts, o.pages, o.latency)
	cfg.Seed = o.seed
	for i := range cfg.Hosts {
		cfg.Hosts[i].Limit = testsite.Limit{Rate: o.limit, Burst: o.burst}
		if o.retryAfter {
			cfg.Hosts[i].Refusal.RetryAfter = "seconds"
		}
	}
	return cfg
}

// serve runs the site until it is interrupted or its time is over, and reports.
func (o *siteOptions) serve(ctx context.Context, s streams) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	if o.print {
		return outputError(testsite.WriteYAML(s.out, cfg))
	}
	site, err := testsite.New(cfg)
	if err != nil {
		return usage(err)
	}
	if err := site.Listen(); err != nil {
		return ioError(err)
	}
	// Before anything is said: who has read it may want the report at once.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Before the message: who waits for that has the addresses.
	addresses := s.out
	if o.asJSON { // then standard output is one JSON document, which has the addresses too
		addresses = s.err
	}
	if _, err := fmt.Fprintln(addresses, strings.Join(site.URLs(), "\n")); err != nil {
		return outputError(err)
	}
	say(s.err, "serving %s; Ctrl-C ends it and prints the report\n", plural(site.Hosts(), "host"))
	if o.time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.time)
		defer cancel()
	}
	if err := site.Run(ctx); err != nil {
		return ioError(err)
	}
	// The one for people first: if the file fails, the figures are not lost.
	return errors.Join(outputError(o.report(s.out, site)), o.saveReport(site))
}

// report prints what the hosts saw, for people or for a test that reads it.
func (o *siteOptions) report(w io.Writer, site *testsite.Site) error {
	r := site.Report()
	if o.asJSON {
		return encodeReport(w, &r)
	}
	return r.WriteTable(w)
}
