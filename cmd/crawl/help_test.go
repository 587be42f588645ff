package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
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
		require.NoError(t, help(&out, cmd, usualWidth))
		require.Equal(t, files[name], out.String(), "`%s --help`; -run TestScript/help -update writes it anew", cmd.CommandPath())
		for _, c := range cmd.Commands() {
			each(c)
		}
	}
	var b bytes.Buffer
	root := rootCommand(streams{out: &b, err: &b})
	root.InitDefaultHelpCmd()
	each(root)
	require.Greater(t, seen, 10)
}

// What cannot be shown is a failure, whoever prints it.
func TestHelpOnAFullDisk(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
	for _, args := range [][]string{
		nil, {"--help"}, {"--version"}, {"version"}, {"help"}, {"help", "config"}, {"config", "-h"}, {"fleet", "--help"}, {"completion", "bash"},
	} {
		var said bytes.Buffer
		code := run(t.Context(), args, streams{in: strings.NewReader(""), out: brokenWriter{full}, err: &said})
		require.Equal(t, exitIO, code, "%q", args)
		require.Equal(t, "crawl: write standard output: "+syscall.ENOSPC.Error()+": free some room there, or name another place\n", said.String(), "%q", args)
	}
}

// The table of the exit codes is one: the help, the manual page, the page of the docs and the
// README have the same.
func TestExitCodesAreToldAlike(t *testing.T) {
	var doc, all bytes.Buffer
	doc.WriteString("# Exit codes\n\nWritten from the program's table: `go test ./cmd/crawl -run TestExitCodesAreToldAlike -update`.\n\n| code | meaning |\n|---|---|\n")
	for _, e := range exits {
		fmt.Fprintf(&doc, "| %d | %s |\n", e.code, e.full)
	}
	path := "../../docs/exit-codes.md"
	if *update {
		require.NoError(t, os.WriteFile(path, doc.Bytes(), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, doc.String(), string(have))

	root := rootCommand(streams{out: &all, err: &all})
	require.NoError(t, fullHelp(&all, root, usualWidth))
	page := manual(root)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, told, found := strings.Cut(strings.Join(strings.Fields(string(readme)), " "), "Exit codes ([all](docs/exit-codes.md)): ")
	require.True(t, found)
	words := strings.Fields(all.String())
	last := -1
	for _, e := range exits {
		require.Greater(t, e.code, last, "in order and none twice")
		last = e.code
		require.Contains(t, strings.Join(words, " "), fmt.Sprintf(" %d %s ", e.code, e.full))
		require.Contains(t, page, fmt.Sprintf(".TP\n.B %d\n%s\n", e.code, escapeRoff(e.full)))
		if e.code != exitFindings {
			require.Contains(t, told[:400], fmt.Sprintf("%d %s", e.code, e.short))
		}
	}
	for line := range strings.Lines(all.String()) {
		require.LessOrEqual(t, len(line), usualWidth+1)
	}
}
