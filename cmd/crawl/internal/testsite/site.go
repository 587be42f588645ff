// Package testsite is `crawl testsite` behind its flags.
package testsite

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

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// Options are the flags of the verb.
type Options struct {
	File, Preset  string
	given         string // the flag that names the file
	ReportTo      string
	Hosts, Pages  int
	Latency, Time time.Duration
	Limit         float64
	Burst, Port   int
	RetryAfter    bool
	Seed          uint64
	AsJSON, Print bool
}

// Check refuses what would be ignored, and zeros that the site takes for a default.
func (o *Options) Check(cmd *cobra.Command) error {
	for _, f := range []struct {
		name  string
		value int
	}{{"hosts", o.Hosts}, {"pages", o.Pages}} {
		if f.value < 1 {
			return exit.Usage(fmt.Errorf("--%s %d: give at least 1", f.name, f.value))
		}
	}
	if err := o.checkFiles(cmd.Flags().Changed); err != nil {
		return err
	}
	other := ""
	switch {
	case o.File != "":
		other = o.given
	case o.Preset != "" && o.Preset != "uniform":
		other = "--preset " + o.Preset
	default:
		return nil
	}
	for _, name := range []string{"hosts", "pages", "latency", "limit", "burst", "retry-after", "seed"} {
		if cmd.Flags().Changed(name) {
			return exit.Usage(fmt.Errorf("--%s has no effect with %s: remove one of them, or print the site with --print and change it there", name, other))
		}
	}
	return nil
}

// config is the site that the flags describe.
func (o *Options) config() (testsite.Config, error) {
	var cfg testsite.Config
	switch {
	case o.File != "" && o.Preset != "":
		return cfg, exit.Usage(fmt.Errorf("%s and --preset both name a site: give one of them", o.given))
	case o.File != "":
		var err error
		if cfg, err = o.readScenario(); err != nil {
			return cfg, err
		}
	case o.Preset == "mixed":
		cfg = testsite.Mixed()
	case o.Preset == "headofline":
		cfg = testsite.HeadOfLine(5)
	case o.Preset == "" || o.Preset == "uniform":
		cfg = o.uniform()
	default:
		return cfg, exit.Usage(fmt.Errorf("--preset %q: give mixed, uniform or headofline", o.Preset))
	}
	if o.Port != 0 {
		cfg.Port = o.Port
	}
	return cfg, nil
}

// uniform is the site of the flags: hosts that are all the same.
func (o *Options) uniform() testsite.Config {
	cfg := testsite.Uniform(o.Hosts, o.Pages, o.Latency)
	cfg.Seed = o.Seed
	for i := range cfg.Hosts {
		cfg.Hosts[i].Limit = testsite.Limit{Rate: o.Limit, Burst: o.Burst}
		if o.RetryAfter {
			cfg.Hosts[i].Refusal.RetryAfter = "seconds"
		}
	}
	return cfg
}

// Serve runs the site until it is interrupted or its time is over, and reports.
func (o *Options) Serve(ctx context.Context, s terminal.Streams) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	if o.Print {
		return exit.Output(testsite.WriteYAML(s.Out, cfg))
	}
	site, err := testsite.New(cfg)
	if err != nil {
		return exit.Usage(err)
	}
	if err := site.Listen(); err != nil {
		return exit.IO(err)
	}
	// Before anything is said: who has read it may want the report at once.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Before the message: who waits for that has the addresses.
	addresses := s.Out
	if o.AsJSON { // then standard output is one JSON document, which has the addresses too
		addresses = s.Err
	}
	if _, err := fmt.Fprintln(addresses, strings.Join(site.URLs(), "\n")); err != nil {
		return exit.Output(err)
	}
	terminal.Say(s.Err, "serving %s; Ctrl-C ends it and prints the report\n", human.Plural(site.Hosts(), "host"))
	if o.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Time)
		defer cancel()
	}
	if err := site.Run(ctx); err != nil {
		return exit.IO(err)
	}
	// The one for people first: if the file fails, the figures are not lost.
	return errors.Join(exit.Output(o.report(s.Out, site)), o.saveReport(site))
}

// report prints what the hosts saw, for people or for a test that reads it.
func (o *Options) report(w io.Writer, site *testsite.Site) error {
	r := site.Report()
	if o.AsJSON {
		return encodeReport(w, &r)
	}
	return r.WriteTable(w)
}
