package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/pipeline/sink"
)

// The exit codes. Scripts branch on them, so they never change their meaning.
const (
	exitDone        = 0
	exitInternal    = 1
	exitUsage       = 2  // flags, configuration, seeds
	exitIO          = 3  // a file, or the state of the crawl, could not be read or written
	exitUnreachable = 4  // no seed answered
	exitLimit       = 10 // max_pages or max_time was reached
	exitInterrupted = 11 // asked to stop; what was under way was finished, or stays queued
	exitForced      = 13 // asked twice; what was under way was given up
	exitBlocked     = 18 // only hosts that refuse to be asked remain
)

// exitHelp stands under the help of the main command.
const exitHelp = `Exit codes:
  0 done   2 usage or configuration   3 file or state   4 no seed reachable
  10 a limit was reached   11 interrupted   13 interrupted twice
  18 only blocked hosts remain   1 anything else`

// exitError carries the code with which the program ends.
type exitError struct {
	code int
	err  error // nil if everything has been said
}

// Error is what complain prints.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap is the error without its code.
func (e *exitError) Unwrap() error { return e.err }

// usage is an error of whoever typed the command.
func usage(err error) error { return &exitError{exitUsage, err} }

// ioError is trouble with a file, a stream or a socket of this machine.
func ioError(err error) error { return &exitError{exitIO, err} }

// outputError marks a failed write to standard output.
func outputError(err error) error {
	if err == nil {
		return nil
	}
	return ioError(fmt.Errorf("write standard output: %w", cause(err)))
}

// cause takes away a path that the message has already, or that is none of the user's.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// code is the exit code of a command that ended with err.
func code(err error) int {
	if err == nil {
		return exitDone
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[*sink.WriteError](err); ok {
		return exitIO
	}
	if _, ok := errors.AsType[*crawl.StateError](err); ok {
		return exitIO
	}
	if _, ok := errors.AsType[*crawl.FleetError](err); ok {
		return exitIO
	}
	switch {
	case errors.Is(err, crawl.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, crawl.ErrBlocked):
		return exitBlocked
	case errors.Is(err, context.Canceled):
		return exitForced
	}
	return exitInternal
}

// endCode is the exit code of a crawl that ended without an error.
func endCode(end pipeline.End) int {
	switch end {
	case pipeline.EndLimit:
		return exitLimit
	case pipeline.EndInterrupted:
		return exitInterrupted
	}
	return exitDone
}

// cutCode is the exit code of a crawl that is cut off in this state.
func cutCode(end pipeline.End, forced bool) int {
	switch {
	case forced:
		return exitForced
	case end == pipeline.EndLimit:
		return exitLimit
	}
	return exitInterrupted
}

// message is an error in words for people.
func message(err error) string {
	e, ok := errors.AsType[*sink.WriteError](err)
	if !ok {
		return err.Error()
	}
	name := e.Path
	if name == "" || name == sink.Stdout {
		name = "standard output"
	}
	reason := cause(e.Err)
	if errors.Is(reason, syscall.EPIPE) {
		reason = errors.New("its reader has closed it")
	}
	return fmt.Sprintf("write %s: %v; it has %s (%s)", name, reason, plural(e.Records, "whole record"), size(e.Bytes))
}

// complain tells a person what went wrong: one line per problem, and where to look.
func complain(w io.Writer, err error) {
	for line := range strings.SplitSeq(strings.TrimRight(message(err), "\n"), "\n") {
		say(w, "crawl: %s\n", clean(line))
	}
	if code(err) == exitUsage {
		say(w, "Try 'crawl --help', or 'crawl config --reference' for every setting.\n")
	}
}

// say writes to standard error, of whose failure there is nobody to tell.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
