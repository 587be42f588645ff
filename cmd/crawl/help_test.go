//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/report"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/records/sink"
)

func helped(out io.Writer) *cobra.Command {
	root := rootCommand(cli.Streams{Out: out, Err: out})
	root.InitDefaultHelpCmd()
	return root
}

// The script has the help of every command, word for word. For a new command add
//
//	exec crawl VERB --help
//	cmp stdout VERB.golden
//
// to it and an empty file of that name, and fill that with `-run TestScript/help -update`.
func TestHelpOfEveryCommand(t *testing.T) {
	script, err := txtar.ParseFile("../../testdata/script/help.txtar")
	require.NoError(t, err)
	files := make(map[string]string)
	for _, f := range script.Files {
		files[f.Name] = string(f.Data)
	}
	comment := string(script.Comment)
	var each func(cmd *cobra.Command)
	seen := 0
	each = func(cmd *cobra.Command) {
		seen++
		words := strings.Fields(cmd.CommandPath())
		name := strings.Join(words[min(len(words)-1, 1):], "-") + ".golden"
		require.Contains(t, files, name, "the help of %q is in no script", cmd.CommandPath())
		require.Contains(t, comment, "\ncmp stdout "+name+"\n")
		var out bytes.Buffer
		cmd.InitDefaultHelpFlag()
		require.NoError(t, flags.Write(&out, cmd, cli.UsualWidth))
		require.Equal(t, files[name], out.String(), "`%s --help`; -run TestScript/help -update writes it anew", cmd.CommandPath())
		for _, c := range cmd.Commands() {
			each(c)
		}
	}
	root := helped(io.Discard)
	each(root)
	require.Greater(t, seen, 10)
	var all bytes.Buffer
	require.NoError(t, flags.WriteFull(&all, root, cli.UsualWidth))
	require.Equal(t, files["all.golden"], all.String(), "`crawl --help-all`; -run TestScript/help -update writes it anew")
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// Help that cannot be written is a failure, whichever command prints it.
func TestHelpOnAFullDisk(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	for _, args := range [][]string{
		{}, {"--help"}, {"--version"}, {"version"}, {"help"}, {"help", "config"}, {"config", "-h"}, {"fleet", "--help"}, {"completion", "bash"},
	} {
		var said bytes.Buffer
		code := run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: brokenWriter{full}, Err: &said})
		require.Equal(t, cli.CodeIO, code, "%q", args)
		require.Equal(t, "crawl: write standard output: "+syscall.ENOSPC.Error()+": free some room there, or name another place\n", said.String(), "%q", args)
	}
}

// Help fits a usual screen, for each command. The short help, with the flags that most people use and a text of one
// line for each, fits on one screen.
func TestHelpFits(t *testing.T) {
	root := helped(io.Discard)
	for _, verb := range append(rootCommand(cli.Streams{}).Commands(), root) {
		var b strings.Builder
		verb.InitDefaultHelpFlag()
		require.NoError(t, flags.Write(&b, verb, cli.UsualWidth))
		require.Contains(t, b.String(), "\nExamples:\n", "%s shows how it is used", verb.Name())
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, cli.Cells(strings.TrimSuffix(line, "\n")), cli.UsualWidth, "%s: %s", verb.Name(), line)
		}
		if verb == root {
			require.LessOrEqual(t, strings.Count(b.String(), "\n"), 40)
		}
	}
	shown := 0
	for _, f := range flags.BriefFlags() {
		if f.Text != "" {
			shown++
			require.NotNil(t, root.Flags().Lookup(f.Name), "--%s is no flag", f.Name)
		}
	}
	require.LessOrEqual(t, shown, 20)
}

// docs/reference/exit-codes.md, the full help and the manual page have the same table.
func TestDocsHaveEveryExitCode(t *testing.T) {
	var doc strings.Builder
	doc.WriteString("| code | meaning |\n|---|---|\n")
	for _, e := range cli.Codes {
		fmt.Fprintf(&doc, "| %d | %s |\n", e.Code, e.Meaning)
	}
	docpage.Check(t, "docs/reference/exit-codes.md", "exit codes", doc.String())

	var all bytes.Buffer
	root := rootCommand(cli.Streams{Out: io.Discard, Err: io.Discard})
	require.NoError(t, flags.WriteFull(&all, root, cli.UsualWidth))
	page := flags.Manual(root)
	words := strings.Join(strings.Fields(all.String()), " ")
	for _, e := range cli.Codes {
		require.Contains(t, words, fmt.Sprintf(" %d %s ", e.Code, e.Meaning))
		require.Contains(t, page, fmt.Sprintf(".TP\n.B %d\n%s\n", e.Code, flags.EscapeRoff(e.Meaning)))
	}
	for line := range strings.Lines(all.String()) {
		require.LessOrEqual(t, len(line), cli.UsualWidth+1)
	}
}

// docs/reference/audit-rules.md has every rule of an audit.
func TestDocsHaveEveryAuditRule(t *testing.T) {
	var page strings.Builder
	require.NoError(t, report.WriteRules(&page, "md"))
	docpage.Check(t, "docs/reference/audit-rules.md", "audit rules", page.String())
}

// docs/reference/commands.md has every command with its flags.
func TestDocsHaveEveryCommand(t *testing.T) {
	var b strings.Builder
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		cmd.InitDefaultHelpFlag()
		fmt.Fprintf(&b, "## %s\n\n%s\n\n```\n%s\n```\n", cmd.CommandPath(), strings.ReplaceAll(flags.About(cmd), "*", `\*`), cmd.UseLine())
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\nExamples:\n\n```\n%s\n```\n", cmd.Example)
		}
		byGroup := map[string]string{}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := strings.TrimSpace(flags.FlagSpelling(f))
			byGroup[flags.GroupOf(f)] += fmt.Sprintf("| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), strings.ReplaceAll(flags.Describe(f), "|", `\|`))
		})
		if cmd.Name() == "demo" { // those of the settings, which the program itself has
			byGroup = map[string]string{flags.GroupOwn: byGroup[flags.GroupOwn]}
		}
		for _, g := range flags.Groups {
			if byGroup[g] == "" {
				continue
			}
			if g != flags.GroupOwn {
				fmt.Fprintf(&b, "\n**%s**\n", g)
			}
			fmt.Fprintf(&b, "\n| flag | meaning |\n|---|---|\n%s", byGroup[g])
		}
		b.WriteString("\n")
		for _, c := range cmd.Commands() {
			each(c)
		}
	}
	each(helped(io.Discard))
	docpage.Check(t, "docs/reference/commands.md", "commands", b.String())
}

// Each command has a manual page with everything that its help has, and a formatter finds no fault with it.
func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	out, _ := crawls(t, cli.CodeDone, "man", dir)
	names := strings.Fields(out)
	require.Contains(t, names, "crawl.1")
	require.Contains(t, names, "crawl-report.1")
	require.NotContains(t, names, "crawl-man.1", "which is for those who package")
	for _, name := range names {
		page := readFile(t, filepath.Join(dir, name))
		require.True(t, bytes.HasPrefix(page, []byte(`.TH "CRAWL`)))
		require.Contains(t, string(page), "\n.SH NAME\ncrawl")
		for line := range strings.Lines(string(page)) {
			require.NotRegexp(t, `^'`, line, "it would be a request")
		}
		if groff, err := exec.LookPath("groff"); err == nil {
			cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-z", filepath.Join(dir, name))
			said, err := cmd.CombinedOutput()
			require.NoError(t, err)
			require.Empty(t, string(said), name)
		}
	}
	first := readFile(t, filepath.Join(dir, "crawl.1"))
	require.Contains(t, string(first), ".SS Politeness\n")
	require.Contains(t, string(first), `\-\-max\-rate`)
	require.Contains(t, string(first), "EXIT STATUS")

	crawls(t, cli.CodeUsage, "man")
	crawls(t, cli.CodeIO, "man", filepath.Join(dir, "crawl.1"))
}

func TestEscapeRoff(t *testing.T) {
	for s, want := range map[string]string{
		"a-b": `a\-b`, `\.pdf$`: `\e.pdf$`, ".TH": `\&.TH`, "a\n'quote'": "a\n\\&'quote'", "": "",
	} {
		require.Equal(t, want, flags.EscapeRoff(s))
	}
}

// The commands in the manual use only flags that their verb has.
func TestManualsCommandsHaveTheirFlags(t *testing.T) {
	root := rootCommand(cli.Streams{})
	var (
		command = regexp.MustCompile(`(?m)^(?:    )?(?:\$ )?crawl (.*)$`)
		quoted  = regexp.MustCompile(`'[^']*'|"[^"]*"`)
		long    = regexp.MustCompile(`(?:^|\s)--([a-z][a-z0-9-]*)`)
	)
	seen := 0
	for _, name := range docpage.Pages(t) {
		for _, m := range command.FindAllStringSubmatch(docpage.Read(t, name), -1) {
			line, _, _ := strings.Cut(quoted.ReplaceAllString(m[1], "Q"), "#")
			line, _, _ = strings.Cut(line, "|")
			cmd, _, err := root.Find(strings.Fields(line))
			if err != nil {
				cmd = root // a URL comes first
			}
			flags := allFlags(cmd)
			for _, flag := range long.FindAllStringSubmatch(line, -1) {
				seen++
				require.True(t, flags[flag[1]], "%s: crawl %s: --%s", name, m[1], flag[1])
			}
		}
	}
	require.Greater(t, seen, 50)
}

func allFlags(cmd *cobra.Command) map[string]bool {
	all := map[string]bool{"help": true, "version": true}
	add := func(f *pflag.Flag) { all[f.Name] = true }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return all
}

// The tests that measure figures of the manual are where it says, and have the flags that it gives.
func TestManualsTestsAreThere(t *testing.T) {
	var (
		command = regexp.MustCompile("`go test ([^`]+)`")
		name    = regexp.MustCompile(`-(?:run|bench) '?([A-Za-z0-9|]+)`)
		pkg     = regexp.MustCompile(`(?:^|\s)(\.(?:/[a-z0-9/]+)?)(?:\s|$)`)
		flag    = regexp.MustCompile(`-([a-z]+\.[a-z]+)`)
	)
	tests := 0
	for _, doc := range docpage.Pages(t) {
		for _, m := range command.FindAllStringSubmatch(strings.ReplaceAll(docpage.Read(t, doc), "\n", " "), -1) {
			dir := pkg.FindStringSubmatch(m[1])
			require.NotNil(t, dir, "%s: %s", doc, m[1])
			files, err := filepath.Glob(filepath.Join("../..", dir[1], "*_test.go"))
			require.NoError(t, err)
			source := ""
			for _, file := range files {
				text := readFile(t, file)
				source += string(text)
			}
			for _, names := range name.FindAllStringSubmatch(m[1], -1) {
				for one := range strings.SplitSeq(names[1], "|") {
					if one == "xxx" { // only benchmarks run
						continue
					}
					tests++
					require.Regexp(t, `func (Test|Benchmark)?[A-Za-z0-9]*`+one, source, "%s: %s", doc, m[1])
				}
			}
			for _, f := range flag.FindAllStringSubmatch(m[1], -1) {
				require.Contains(t, source, `"`+f[1]+`"`, "%s: %s", doc, m[1])
			}
		}
	}
	require.Greater(t, tests, 25)
}

func TestExitCodes(t *testing.T) {
	full := &sink.WriteError{Path: "p.jsonl", Err: syscall.ENOSPC}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, cli.CodeDone},
		{errors.New("a bug"), cli.CodeInternal},
		{cli.Usage(errors.New("a flag")), cli.CodeUsage},
		{fmt.Errorf("write output: %w", full), cli.CodeIO},
		{errors.Join(assembly.ErrUnreachable, cli.IO(full)), cli.CodeIO},
		{fmt.Errorf("%w: why", assembly.ErrUnreachable), cli.CodeNothing},
		{fmt.Errorf("%w: why", assembly.ErrBlocked), cli.CodeBlocked},
		{job.ErrForced, cli.CodeForced},
		{context.Canceled, cli.CodeForced},
	} {
		require.Equal(t, c.want, cli.CodeOf(c.err), c.err)
	}
	require.Equal(t, "exit code 10", (&cli.Error{Code: cli.CodeLimit}).Error(), "an end that is no failure can be joined with one")
}

func TestMessages(t *testing.T) {
	path := func(err error) error { return &fs.PathError{Op: "write", Path: "/a/b", Err: err} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{&sink.WriteError{Path: "/a/b", Records: 1, Bytes: 2048, Err: path(syscall.ENOSPC)}, "write /a/b: no space left on device; it has 1 whole record (2.0 KiB)"},
		{&sink.WriteError{Records: 1200, Bytes: 3, Err: path(syscall.EPIPE)}, "write standard output: its reader has closed it; it has 1,200 whole records (3 B)"},
		{&sink.WriteError{Path: "-", Err: syscall.EIO}, "write standard output: input/output error; it has 0 whole records (0 B)"},
	} {
		require.Equal(t, c.want, cli.Message(fmt.Errorf("write output: %w", c.err)))
	}
}

// Every flag has a group of the help and a word for its value.
func TestFlagGroups(t *testing.T) {
	known := flags.Groups
	for _, f := range config.Flags() {
		require.Contains(t, known, flags.GroupOfSetting(f.Path), f.Name)
		require.NotEqual(t, flags.GroupOwn, flags.GroupOfSetting(f.Path), f.Name)
		require.True(t, f.Switch || f.Arg != "", f.Name)
	}
}

func TestHeapRoom(t *testing.T) {
	const mib = 1 << 20
	for live, percent := range map[uint64]int{
		0:              200, // as for four MiB, the least that counts
		4 * mib:        200,
		5 * mib:        160,
		7 * mib:        114,
		8 * mib:        100,
		9 * mib:        100,
		math.MaxUint64: 100,
	} {
		require.Equal(t, percent, gcPercent(live), live)
	}
}

// A heap above heapRoom doubles as by default: the percentage follows what the last collection has left. If the user
// has set GOGC, that stands. A goroutine of the runtime sets the percentage, some time after a collection.
func TestHeapRoomFollows(t *testing.T) {
	require.False(t, giveRoom(func(name string) (string, bool) { return "", name == "GOGC" }))
	require.True(t, giveRoom(func(string) (string, bool) { return "", false }))
	large := make([]byte, 2*heapRoom)
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for metrics.Read(now); now[0].Value.Uint64() != 100; metrics.Read(now) {
		runtime.GC()
	}
	runtime.KeepAlive(large)
}
