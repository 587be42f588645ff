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
	"github.com/treadlight/crawl/internal/records/sink"
)

// The exit codes. Scripts branch on them, so they never change their meaning.
const (
	exitDone        = 0
	exitInternal    = 1
	exitUsage       = 2
	exitIO          = 3
	exitNothing     = 4
	exitLimit       = 10
	exitInterrupted = 11
	exitForced      = 13
	exitBlocked     = 18
	exitFindings    = 20 // no command ends with it yet
)

// exits is what each code means. The full help, the manual page and docs/reference/exit-codes.md
// are made from it.
var exits = []struct {
	code    int
	meaning string
}{
	{exitDone, "done: everything in scope was visited, or as many pages as --max-pages asks for"},
	{exitInternal, "an internal error: please report it"},
	{exitUsage, "usage or configuration: a flag, a setting or a seed is wrong"},
	{exitIO, "a file, an output or the state of the crawl could not be read or written"},
	{exitNothing, "nothing was obtained: no URL was answered with a page, because nobody answered, all answers were refusals or errors, or robots.txt or --exclude leaves nothing"},
	{exitLimit, "--max-time, or another limit that was not asked for as the goal, cut the crawl off"},
	{exitInterrupted, "interrupted: what was under way was finished, or stays queued; a crawl with a state can be resumed"},
	{exitForced, "interrupted twice: what was under way was given up; a crawl with a state can be resumed"},
	{exitBlocked, "URLs are left, all on hosts that refuse requests for now; a crawl with a state can be resumed"},
	{exitFindings, "findings: kept for audits, no command ends with it yet"},
}

// allExits is the table of the codes in lines of columns at most.
func allExits(columns int) string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, e := range exits {
		lines := wrap(e.meaning, columns-6)
		fmt.Fprintf(&b, "  %-4d%s\n", e.code, strings.Join(lines, "\n      "))
	}
	return b.String()
}

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

// openError is trouble with opening what a person has named, and what helps.
func openError(what string, err error) error {
	fix := ""
	switch {
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		fix = ": make the place writable for this user, or name another"
	case noRoom(err):
		fix = ": free some room there, or name another place"
	}
	return ioError(fmt.Errorf("open %s: %w%s", what, err, fix))
}

// writeError is trouble with writing what a person has named, and what helps.
func writeError(what string, err error) error {
	fix := ""
	if noRoom(err) {
		fix = ": free some room there, or name another place"
	}
	return ioError(fmt.Errorf("write %s: %w%s", what, err, fix))
}

// noRoom reports whether a disk is full, or as full as this user may make it.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// outputError marks a failed write to standard output.
func outputError(err error) error {
	if err == nil {
		return nil
	}
	return writeError("standard output", cause(err))
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
	case errors.Is(err, crawl.ErrUnreachable), errors.Is(err, errNothing):
		return exitNothing
	case errors.Is(err, crawl.ErrBlocked):
		return exitBlocked
	case errors.Is(err, context.Canceled):
		return exitForced
	}
	return exitInternal
}

// errNothing is the end of a crawl that came to its end without a page.
var errNothing = errors.New("nothing was obtained: no URL was answered with a page")

// ended is the error of a crawl that ended without one: the exit code of its end.
func (j *job) ended(final *crawl.Snapshot) error {
	switch {
	case final.State == pipeline.EndInterrupted:
		return &exitError{code: exitInterrupted}
	case final.State == pipeline.EndLimit && !enoughPages(final.State, final.Reason):
		return &exitError{code: exitLimit}
	case j.obtained(final):
		return nil
	}
	return fmt.Errorf("%w%s", errNothing, j.out.failures())
}

// enoughPages reports whether a crawl ended with as many pages as it was to have.
func enoughPages(end pipeline.End, reason string) bool {
	return end == pipeline.EndLimit && strings.HasPrefix(reason, "max_pages ")
}

// obtained reports whether a crawl, with its earlier runs, has a page, or one that the
// settings kept out. A process of several need not have any, nor need a round in which nothing
// was due.
func (j *job) obtained(s *crawl.Snapshot) bool {
	if s.Pages > 0 || j.out.good || j.cfg.Fleet.Shared() {
		return true
	}
	if !j.resumed {
		return false
	}
	_, before := j.state.Left()
	return j.state.Obtained() || before == 0 && s.Records == 0
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
	if e, ok := errors.AsType[*unwritten](err); ok {
		return e.Error()
	}
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
