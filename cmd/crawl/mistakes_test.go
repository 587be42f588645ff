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
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
)

func TestExitCodes(t *testing.T) {
	full := &sink.WriteError{Path: "p.jsonl", Err: syscall.ENOSPC}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitDone},
		{errors.New("a bug"), exitInternal},
		{usage(errors.New("a flag")), exitUsage},
		{fmt.Errorf("write output: %w", full), exitIO},
		{errors.Join(crawl.ErrUnreachable, ioError(full)), exitIO},
		{fmt.Errorf("%w: why", crawl.ErrUnreachable), exitNothing},
		{fmt.Errorf("%w: why", crawl.ErrBlocked), exitBlocked},
		{errForced, exitForced},
		{context.Canceled, exitForced},
	} {
		require.Equal(t, c.want, code(c.err), c.err)
	}
	require.Equal(t, "exit code 10", (&exitError{code: exitLimit}).Error(), "an end that is no failure can be joined with one")
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
		require.Equal(t, c.want, message(fmt.Errorf("write output: %w", c.err)))
	}
}

// Every flag has a group of the help and a word for its value.
func TestFlagGroups(t *testing.T) {
	known := groups()
	for _, f := range config.Flags() {
		require.Contains(t, known, groupOf(f.Path), f.Name)
		require.NotEqual(t, groupOwn, groupOf(f.Path), f.Name)
		require.True(t, f.Switch || f.Arg != "", f.Name)
	}
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"a few", "words"}, wrap("a few  words", 6))
	require.Equal(t, []string{"unbreakable", "x"}, wrap("unbreakable x", 3))
	require.Equal(t, []string{""}, wrap("", 3))
}

// Help fits a usual screen, whatever the verb.
func TestHelpFits(t *testing.T) {
	for _, verb := range append(rootCommand(streams{}).Commands(), rootCommand(streams{})) {
		var b strings.Builder
		verb.InitDefaultHelpFlag()
		require.NoError(t, help(&b, verb, usualWidth))
		require.Contains(t, b.String(), "\nExamples:\n", "%s shows how it is used", verb.Name())
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, cells(strings.TrimSuffix(line, "\n")), usualWidth, "%s: %s", verb.Name(), line)
		}
	}
}
