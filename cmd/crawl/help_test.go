package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/lab/docpage"
)

// The help of every command is in the script, word for word. Whoever adds one adds
//
//	exec crawl VERB --help
//	cmp stdout VERB.golden
//
// to it with an empty file of that name, and has `-run TestScript/help -update` fill it.
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
	var b bytes.Buffer
	root := rootCommand(cli.Streams{Out: &b, Err: &b})
	root.InitDefaultHelpCmd()
	each(root)
	require.Greater(t, seen, 10)
	var all bytes.Buffer
	require.NoError(t, flags.WriteFull(&all, root, cli.UsualWidth))
	require.Equal(t, files["all.golden"], all.String(), "`crawl --help-all`; -run TestScript/help -update writes it anew")
}

// brokenWriter fails with err.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// What cannot be shown is a failure, whoever prints it.
func TestHelpOnAFullDisk(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	for _, args := range [][]string{
		nil, {"--help"}, {"--version"}, {"version"}, {"help"}, {"help", "config"}, {"config", "-h"}, {"fleet", "--help"}, {"completion", "bash"},
	} {
		var said bytes.Buffer
		code := run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: brokenWriter{full}, Err: &said})
		require.Equal(t, cli.CodeIO, code, "%q", args)
		require.Equal(t, "crawl: write standard output: "+syscall.ENOSPC.Error()+": free some room there, or name another place\n", said.String(), "%q", args)
	}
}

// The short help fits one screen, with the flags that most people use, each with a text of one
// line.
func TestShortHelpFitsOneScreen(t *testing.T) {
	var out bytes.Buffer
	root := rootCommand(cli.Streams{Out: &out, Err: &out})
	root.InitDefaultHelpCmd()
	require.NoError(t, flags.Write(&out, root, cli.UsualWidth))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.LessOrEqual(t, len(lines), 40)
	for _, line := range lines {
		require.LessOrEqual(t, len(line), cli.UsualWidth)
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
	root := rootCommand(cli.Streams{Out: &all, Err: &all})
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

// docs/reference/commands.md has every command with its flags.
func TestDocsHaveEveryCommand(t *testing.T) {
	var b strings.Builder
	root := rootCommand(cli.Streams{Out: &b, Err: &b})
	root.InitDefaultHelpCmd()
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
	each(root)
	docpage.Check(t, "docs/reference/commands.md", "commands", b.String())
}
