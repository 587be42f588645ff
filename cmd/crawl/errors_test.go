package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
)

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
		{errors.Join(crawl.ErrUnreachable, cli.IO(full)), cli.CodeIO},
		{fmt.Errorf("%w: why", crawl.ErrUnreachable), cli.CodeNothing},
		{fmt.Errorf("%w: why", crawl.ErrBlocked), cli.CodeBlocked},
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

// Help fits a usual screen, whatever the verb.
func TestHelpFits(t *testing.T) {
	for _, verb := range append(rootCommand(cli.Streams{}).Commands(), rootCommand(cli.Streams{})) {
		var b strings.Builder
		verb.InitDefaultHelpFlag()
		require.NoError(t, flags.Write(&b, verb, cli.UsualWidth))
		require.Contains(t, b.String(), "\nExamples:\n", "%s shows how it is used", verb.Name())
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, cli.Cells(strings.TrimSuffix(line, "\n")), cli.UsualWidth, "%s: %s", verb.Name(), line)
		}
	}
}
