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
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/cmd/crawl/internal/help"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
)

func TestExitCodes(t *testing.T) {
	full := &sink.WriteError{Path: "p.jsonl", Err: syscall.ENOSPC}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exit.CodeDone},
		{errors.New("a bug"), exit.CodeInternal},
		{exit.Usage(errors.New("a flag")), exit.CodeUsage},
		{fmt.Errorf("write output: %w", full), exit.CodeIO},
		{errors.Join(crawl.ErrUnreachable, exit.IO(full)), exit.CodeIO},
		{fmt.Errorf("%w: why", crawl.ErrUnreachable), exit.CodeNothing},
		{fmt.Errorf("%w: why", crawl.ErrBlocked), exit.CodeBlocked},
		{job.ErrForced, exit.CodeForced},
		{context.Canceled, exit.CodeForced},
	} {
		require.Equal(t, c.want, exit.CodeOf(c.err), c.err)
	}
	require.Equal(t, "exit code 10", (&exit.Error{Code: exit.CodeLimit}).Error(), "an end that is no failure can be joined with one")
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
		require.Equal(t, c.want, exit.Message(fmt.Errorf("write output: %w", c.err)))
	}
}

// Every flag has a group of the help and a word for its value.
func TestFlagGroups(t *testing.T) {
	known := flags.Groups()
	for _, f := range config.Flags() {
		require.Contains(t, known, flags.GroupOfSetting(f.Path), f.Name)
		require.NotEqual(t, flags.GroupOwn, flags.GroupOfSetting(f.Path), f.Name)
		require.True(t, f.Switch || f.Arg != "", f.Name)
	}
}

// Help fits a usual screen, whatever the verb.
func TestHelpFits(t *testing.T) {
	for _, verb := range append(rootCommand(terminal.Streams{}).Commands(), rootCommand(terminal.Streams{})) {
		var b strings.Builder
		verb.InitDefaultHelpFlag()
		require.NoError(t, help.Write(&b, verb, terminal.UsualWidth))
		require.Contains(t, b.String(), "\nExamples:\n", "%s shows how it is used", verb.Name())
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, human.Cells(strings.TrimSuffix(line, "\n")), terminal.UsualWidth, "%s: %s", verb.Name(), line)
		}
	}
}
