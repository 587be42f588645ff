package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/mirror"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/observe/endpoint"
	"github.com/treadlight/crawl/internal/records/sink"
)

type mirrorRun struct {
	cli.Streams
	loaded *config.Loaded
	seeds  []string

	prefix, span, delete, json bool
	serve                      string
	keep                       []string
}

// mirrorCommand returns the command that makes a copy of a site.
func mirrorCommand(s cli.Streams) *cobra.Command {
	r := &mirrorRun{Streams: s}
	cmd := verb("mirror")
	cmd.Args = cobra.ArbitraryArgs
	settings := flags.Add(cmd, true, func(f *config.Flag) bool {
		section, _, _ := strings.Cut(f.Path, ".")
		return f.Path == "output.path" || !slices.Contains([]string{"fleet", "stats", "warc", "extract", "output", "state", "traces", "listen", "seeds", "sitemaps"}, section)
	})
	set := cmd.Flags()
	output := set.Lookup("output")
	output.Hidden, output.Usage, output.DefValue = false, "the copy: a new `dir`, or one that is a mirror", ""
	noParent := set.Bool("no-parent", true, "only pages below the directory of the URL; =false: of its host, or what --scope says")
	set.BoolVar(&r.span, "span-requisites", true, "what pages are made of from other hosts too; =false: from their own alone")
	set.StringSliceVar(&r.keep, "keep", nil, "have only files of these media `types` in the copy, such as application/pdf or image/*; pages are still visited, for their links")
	set.BoolVar(&r.delete, "delete", false, "remove what hosts no longer have or nothing leads to, once all was seen")
	set.StringVar(&r.serve, "serve", "", "show the copy at that `address` of this machine (default: any port) until interrupted")
	set.Lookup("serve").NoOptDefVal = anyPort
	set.BoolVar(&r.json, "json", false, "print the report as JSON")
	set.StringVar(&settings.File, "config", "", "read settings from this YAML or JSON `file`; flags are stronger")
	for _, name := range []string{"output", "config"} {
		flags.SetGroup(set.Lookup(name), flags.GroupOwn)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err = r.misplaced(set, args); err != nil {
			return err
		}
		if err = ofFile(settings.Given); err != nil {
			return err
		}
		if err = flags.CheckSeeds(cmd.Root(), args); err != nil {
			return err
		}
		if r.loaded, err = settings.Load(s.Env); err != nil {
			return err
		}
		r.seeds, r.prefix = args, *noParent && !set.Changed("scope")
		return r.run(cmd.Context())
	}
	return cmd
}

// anyPort is the address of --serve without a value.
const anyPort = "127.0.0.1:0"

// misplaced returns an error for an argument that is no URL to copy, but was meant for --serve or --output.
func (r *mirrorRun) misplaced(set *pflag.FlagSet, args []string) error {
	for i, arg := range args {
		if at, err := endpoint.ParseAddress(arg); err == nil && at.Check("") == nil && r.serve == anyPort {
			return cli.Usagef("%q is taken for a URL to copy: write --serve=%s to show the copy there, or %s to copy what is there", arg, arg, at.URL())
		}
		host, _, _ := strings.Cut(filepath.ToSlash(arg), "/")
		if i > 0 && !set.Changed("output") && (host == "" || host[0] == '.' || !strings.ContainsAny(host, ".:") && host != "localhost") {
			return cli.Usagef("mirror writes to -o DIR: write -o %s", cli.ShellWord(arg))
		}
	}
	return nil
}

// ofFile returns an error for an output that is named like a file. The settings take it for a file of records.
func ofFile(given []config.FlagValue) error {
	for _, f := range given {
		if err := namedAsFile("a mirror", f.Value); f.Name == "output" && err != nil {
			return err
		}
	}
	return nil
}

// namedAsFile returns an error if the directory that a command writes, which what names, has a name like that of a file.
func namedAsFile(what, dir string) error {
	ending := config.FileEnding(dir)
	if ending == "" {
		return nil
	}
	return cli.Usagef("--output %[1]s: %[2]s is a directory, not a %[3]s file: give the name of a directory, or '%[1]s/' for a directory of that name", cli.ShellWord(dir), what, ending)
}

func (r *mirrorRun) run(ctx context.Context) error {
	cfg := &r.loaded.Config
	dir := cfg.Output.Path
	if dir == sink.Stdout || dir == "" {
		return cli.Usagef("mirror needs a directory: -o DIR")
	}
	if len(r.seeds) > 0 || r.serve == "" {
		if err := r.mirror(ctx, dir); err != nil {
			return err
		}
	}
	if r.serve == "" {
		return nil
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return mirror.Serve(ctx, dir, r.serve, func(url string) {
		cli.Say(cli.NewTerminal(r.Err, r.Env, cfg.Log.Progress), "%s is shown at %s (Ctrl-C ends it)\n", dir, url)
	})
}

func (r *mirrorRun) mirror(ctx context.Context, dir string) error {
	cfg := &r.loaded.Config
	term, log, every := job.Messages(r.Streams, r.loaded)
	o := job.OptionsOf(cfg)
	if r.prefix {
		o.Scope.Mode = "prefix"
	}
	m, err := mirror.Open(mirror.Options{Dir: dir, Seeds: r.seeds, SameHost: !r.span, Delete: r.delete, Keep: r.keep, Crawl: o, Log: job.OfProgram(log)})
	if err != nil {
		return err
	}
	var report *mirror.Report
	run := func(ctx context.Context) (err error) {
		report, err = m.Run(ctx)
		return err
	}
	if c := m.Crawler(); c != nil {
		err = job.Supervise(ctx, term, log, every, c, run)
	} else {
		err = run(ctx)
	}
	if e := m.Close(); err == nil && e != nil {
		err = cli.IO(e)
	}
	if report != nil {
		switch {
		case r.json:
			if e := cli.WriteJSON(r.Out, report); err == nil {
				err = cli.Output(e)
			}
		case !cfg.Log.Quiet():
			report.Write(term)
		}
	}
	if err == nil {
		err = mirrorEnd(m, report)
	}
	return err
}

// mirrorEnd returns the error that carries the exit code of a run that ended without an error; nil if all is well.
func mirrorEnd(m *mirror.Mirror, report *mirror.Report) error {
	state, reason := "done", ""
	if c := m.Crawler(); c != nil {
		s := c.Snapshot()
		state, reason = s.State, s.Reason
	}
	switch {
	case state == "interrupted":
		return &cli.Error{Code: cli.CodeInterrupted}
	case state == "limit" && !strings.HasPrefix(reason, "max_pages "):
		return &cli.Error{Code: cli.CodeLimit}
	case report.Pages+report.Files == 0 && report.New+report.Changed+report.Unchanged > 0:
		return &cli.Error{Code: cli.CodeOf(cli.ErrNothing), Err: fmt.Errorf("none of the %s is of the types of --keep", cli.Plural(report.New+report.Changed+report.Unchanged, "page"))}
	case report.Pages+report.Files == 0:
		return cli.ErrNothing
	}
	return nil
}
