// Command crawl is Treadlight on the command line: a crawler that learns how fast each host may be requested. `crawl
// --help` has the flags, `crawl demo` shows it at work without a network.
//
// # Files
//
// The commands are here, with their flags and texts. Related commands share a file: resume.go has those about a crawl
// that is kept (resume, again, check), report.go those that show what a crawl did (report, stats, hosts), help.go those
// about the program itself. All of them use:
//
//   - job: one crawl from the command line, for crawl, resume, again and demo
//   - flags: the flags of the settings, the help and the manual pages
//   - view: a crawl as people see it: while it runs, at its end, and by its records
//   - cli: streams, the terminal, exit codes, and texts for people: numbers, tables, and pages by templates
//
// # Output
//
// Records go to standard output or a file, and so do snapshots of --stats, but never both to the same place. Events
// (output.events) go to a file or to standard error; some may be dropped. Everything for people goes to standard error
// through one [cli.Terminal], which keeps log lines, reports and the status line apart and removes control characters
// from foreign text. With log.format json, all of it is log lines for machines.
//
// # What is held stable
//
// Scripts may rely on the exit codes (internal/cli), the names of flags and variables, the records and the stats file.
// Reports and messages are for people and may change; the sessions in testdata/script show them as they are.
//
// This package has no logic of crawling: a program that imports the module can do what the command does.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"

	"github.com/spf13/cobra"

	_ "github.com/treadlight/crawl/browser"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	_ "github.com/treadlight/crawl/console"
	"github.com/treadlight/crawl/internal/config"
	_ "github.com/treadlight/crawl/maintext"
	_ "github.com/treadlight/crawl/redis"
	_ "github.com/treadlight/crawl/sqlite"
	_ "github.com/treadlight/crawl/traces"
)

func main() {
	// Package net/http writes to this logger about servers that send more than they announced, and has no other place
	// for it. The records say what became of the pages.
	log.SetOutput(io.Discard)
	giveRoom(os.LookupEnv)
	os.Exit(run(context.Background(), os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}))
}

// run is the whole program, apart from the process around it. It returns the exit code.
func run(ctx context.Context, args []string, s cli.Streams) int {
	cmd := rootCommand(s)
	cmd.SetArgs(args)
	cmd.SetIn(s.In)
	cmd.SetOut(s.Out)
	cmd.SetErr(s.Err)
	if named, rest, err := cmd.Find(args); err == nil {
		if err := flags.CheckSwallowed(named, rest); err != nil {
			_, name, _ := strings.Cut(named.CommandPath(), " ")
			cli.Complain(s.Err, err, name)
			return cli.CodeOf(err)
		}
	}
	var unshown error // of help that a flag requests; cobra has no error for it
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { unshown = flags.Show(s.Out, cmd) })
	ran, err := cmd.ExecuteContextC(ctx)
	err = cmp.Or(err, unshown)
	if e, ok := errors.AsType[*cli.Error](err); err != nil && (!ok || e.Err != nil) {
		_, name, _ := strings.Cut(ran.CommandPath(), " ")
		cli.Complain(s.Err, err, name) // an error with a code alone has nothing to print
	}
	return cli.CodeOf(err)
}

// rootCommand returns the tree of commands. It is built for every run and holds all state of the run, so that two runs
// in one process share nothing.
func rootCommand(s cli.Streams) *cobra.Command {
	root := verb("crawl")
	root.Args = cobra.ArbitraryArgs
	root.SilenceErrors, root.SilenceUsage = true, true // run prints errors, in this program's words
	settings := flags.AddAll(root, false)
	var asVersion, helpAll bool // not cobra's --version, which has another exit code for a full disk
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case asVersion:
			return showVersion(s.Out)
		case helpAll:
			return cli.Output(flags.WriteFull(s.Out, cmd, flags.Columns(s.Out)))
		}
		return crawlFrom(cmd, s, settings, args)
	}
	root.SetFlagErrorFunc(flags.FlagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand(s))
	root.AddCommand(
		demoCommand(s), docsCommand(s), resumeCommand(s), againCommand(s), auditCommand(s), explainCommand(s), configCommand(s), statsCommand(s),
		reportCommand(s), mergeCommand(s), fleetCommand(s), hostsCommand(s), checkCommand(s), testsiteCommand(s),
		simulateCommand(s), mirrorCommand(s), planCommand(s), doctorCommand(s), tryCommand(s), readCommand(s), watchCommand(s), completionCommand(s), manCommand(s), versionCommand(s),
	)
	for _, cmd := range append(root.Commands(), root) {
		cmd.DisableFlagsInUseLine = true // the usage names the flags already
	}
	root.Flags().BoolP("help", "h", false, "show this help")
	root.Flags().BoolVar(&helpAll, "help-all", false, "show every flag, what signals do and the exit codes")
	root.Flags().BoolVar(&asVersion, "version", false, "print the version")
	for _, name := range []string{"config", "help", "help-all", "version"} {
		flags.SetGroup(root.Flags().Lookup(name), flags.GroupMessages)
	}
	return root
}

// crawlFrom crawls what the command line names. Without flags, arguments and seeds it prints the help.
func crawlFrom(cmd *cobra.Command, s cli.Streams, settings *flags.Settings, args []string) error {
	if err := flags.CheckSeeds(cmd, args); err != nil {
		return err
	}
	loaded, err := settings.Load(s.Env)
	switch {
	case len(args) == 0 && cmd.Flags().NFlag() == 0 && (err != nil || len(loaded.Config.Seeds.Files) == 0 && !loaded.Config.Fleet.Shared()):
		return flags.Show(cmd.OutOrStdout(), cmd)
	case err != nil:
		return err
	}
	seedless := len(args) == 0 && len(loaded.Config.Seeds.Files) == 0
	if seedless && !loaded.Config.Fleet.Shared() {
		return cli.Usage(job.ErrNoSeeds)
	}
	j := &job.Job{Options: job.Options{
		Streams: s, Settings: &loaded.Config, Warnings: loaded.Warnings, Seeds: args, Join: seedless,
		Reread: flags.Again(settings.FileIn(s.Env), func() (*config.Loaded, error) { return settings.Load(s.Env) }),
	}}
	return j.Run(cmd.Context())
}

// heapRoom is how many bytes of garbage there may be, at least, before the garbage collector runs. By default Go lets a
// heap double, which suits a large heap; but a small crawl fills its few megabytes many times a second. A heap larger
// than heapRoom doubles as by default. With four times this room mirrors of 250 to 1,500 pages took up to 30 % more
// processor time, since on a virtual machine new memory costs more than a collection.
const heapRoom = 8 << 20

// leastHeap is the least heap, in bytes, to which Go applies its percentage: it counts a smaller one as this.
const leastHeap = 4 << 20

// giveRoom lets heapRoom of garbage collect before the collector runs, and reports whether it does. It does not if the
// user has set GOGC. GOMEMLIMIT stays the upper bound.
func giveRoom(lookup func(string) (string, bool)) bool {
	if _, set := lookup("GOGC"); set {
		return false
	}
	debug.SetGCPercent(gcPercent(leastHeap))
	onceCollected()
	return true
}

// onceCollected adapts the percentage to the heap that the next collection leaves, and then waits for the collection
// after that one.
func onceCollected() {
	type unheld struct{ _ *unheld } // with a pointer, since an object without may share memory with one that lives
	runtime.AddCleanup(new(unheld), func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
		onceCollected()
	}, struct{}{})
}

// gcPercent returns the percentage, as in GOGC, by which a heap with that many bytes in use may grow.
func gcPercent(live uint64) int {
	return int(max(100, 100*heapRoom/max(live, leastHeap)))
}
