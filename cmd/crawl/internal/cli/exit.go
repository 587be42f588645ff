// Package cli has what all commands use: the standard streams and the terminal, the exit codes and the errors that
// carry them, and text for people: numbers, lists, tables, and pages by templates.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/document/spelling"
	"github.com/treadlight/crawl/internal/records/sink"
)

// The exit codes. Scripts branch on them, so they never change their meaning.
const (
	CodeDone        = 0
	CodeInternal    = 1
	CodeUsage       = 2
	CodeIO          = 3
	CodeNothing     = 4
	CodeLimit       = 10
	CodeInterrupted = 11
	CodeForced      = 13
	CodeBlocked     = 18
	CodeFindings    = 20
)

// Service is how the systemd unit treats an exit code.
type Service uint8

// How the unit may treat a code. The zero value is none of them: a row of [Codes] without one fails a test.
const (
	_       Service = iota
	Success         // a start that ended well
	Restart         // a failure that another start may not have
	Failure         // a failure that another start would repeat
)

// Code is an exit code and everything that depends on it.
type Code struct {
	Code    int
	Service Service
	Round   bool    // the next start of the service begins a round
	Errors  []error // errors that end with this code, besides those that CodeOf knows by their type
	Meaning string
}

// Codes lists the exit codes. The full help, the manual page and docs/reference/exit-codes.md are made from it; a test
// compares the systemd unit with it.
var Codes = []Code{
	{CodeDone, Success, true, nil, "done: everything in scope was visited, or as many pages as --max-pages asks for"},
	{CodeInternal, Restart, false, nil, "an internal error: please report it"},
	{CodeUsage, Failure, false, []error{assembly.ErrLogin}, "usage or configuration: a flag, a setting or a seed is wrong, or the login of --login fails"},
	{CodeIO, Failure, false, nil, "a file, an output or the state of the crawl could not be read or written"},
	{CodeNothing, Failure, true, []error{assembly.ErrUnreachable, ErrNothing}, "nothing was obtained: no URL was answered with a page, because nobody answered, all answers were refusals or errors, or robots.txt or --exclude leaves nothing"},
	{CodeLimit, Success, true, nil, "--max-time, or another limit that was not asked for as the goal, cut the crawl off"},
	{CodeInterrupted, Success, false, nil, "interrupted: what was under way was finished, or stays queued; a crawl with a state can be resumed"},
	{CodeForced, Restart, false, nil, "interrupted twice: what was under way was given up; a crawl with a state can be resumed"},
	{CodeBlocked, Success, true, []error{assembly.ErrBlocked}, "URLs are left, all on hosts that refuse requests for now; a crawl with a state can be resumed"},
	{CodeFindings, Restart, false, nil, "findings: an audit has found what --fail-on names"},
}

// ErrNothing is the error of a crawl that ended without a single page.
var ErrNothing = errors.New("nothing was obtained: no URL was answered with a page")

// Error is an error with the exit code of the program.
type Error struct {
	Code int
	Err  error // nil if everything has been reported already
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Usage wraps an error in the command line or the settings.
func Usage(err error) error { return &Error{CodeUsage, err} }

// Usagef is Usage of a formatted error.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// IO wraps a failure of a file, a stream or a socket of this machine.
func IO(err error) error { return &Error{CodeIO, err} }

// IOf is IO of a formatted error.
func IOf(format string, args ...any) error { return IO(fmt.Errorf(format, args...)) }

// Open wraps a failure to open what, as the user knows it, for writing, and adds how to fix it if that is known. It
// returns nil if err is nil.
func Open(what string, err error) error { return withFix("open", what, err) }

// Write wraps a failure to write what, as the user knows it, and adds how to fix it if that is known. It returns nil if
// err is nil.
func Write(what string, err error) error { return withFix("write", what, err) }

func withFix(verb, what string, err error) error {
	fix := ""
	switch {
	case err == nil:
		return nil
	case DiskFull(err):
		fix = ": free some room there, or name another place"
	case errors.Is(err, fs.ErrNotExist):
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			fix = missing(e)
		}
	case verb == "open" && (errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)):
		fix = ": make the place writable for this user, or name another"
	}
	return IOf("%s %s: %w%s", verb, what, err, fix)
}

// missing says what to do if a file cannot be made because something is not there.
func missing(e *fs.PathError) string {
	dir := filepath.Dir(e.Path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return ": 'mkdir -p " + ShellWord(dir) + "' makes the directory"
	}
	return ": name another place" // such as /proc, where nothing can be made
}

// DiskFull reports whether err means that the disk, or the user's quota on it, is full.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Output wraps a failed write to standard output. It returns nil if err is nil.
func Output(err error) error { return Write("standard output", Cause(err)) }

// Cause returns the cause of a path error without its path, for a message that names the path already or should not
// name it. Other errors it returns as they are.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Has reports whether err is or wraps an error of type E.
func Has[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// CodeOf returns the exit code of a command that ended with err.
func CodeOf(err error) int {
	if err == nil {
		return CodeDone
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if Has[*sink.WriteError](err) || Has[*assembly.StateError](err) || Has[*assembly.FleetError](err) {
		return CodeIO
	}
	for _, c := range Codes {
		if slices.ContainsFunc(c.Errors, func(e error) bool { return errors.Is(err, e) }) {
			return c.Code
		}
	}
	if errors.Is(err, context.Canceled) { // last, since errors with a code of their own may wrap it
		return CodeForced
	}
	return CodeInternal
}

// Message returns an error in words for people.
func Message(err error) string {
	e, ok := errors.AsType[*sink.WriteError](err)
	if !ok {
		return err.Error()
	}
	name := e.Path
	if name == "" || name == sink.Stdout {
		name = "standard output"
	}
	reason := Cause(e.Err)
	if errors.Is(reason, syscall.EPIPE) {
		reason = errors.New("its reader has closed it")
	}
	return fmt.Sprintf("write %s: %v; it has %s (%s)", name, reason, Plural(e.Records, "whole record"), Size(e.Bytes))
}

// advised is an error with what a person can do about it.
type advised struct {
	error
	advice string // a sentence without its full stop
}

func (e *advised) Unwrap() error { return e.error }

// Advise returns err with what a person can do about it, which [Complain] prints on a line of its own and which is no
// part of the error's text. It returns err as it is if it is nil, if there is no advice, or if err has some already.
func Advise(err error, advice string) error {
	if err == nil || advice == "" || AdviceOf(err) != "" {
		return err
	}
	return &advised{err, advice}
}

// AdviceOf returns the advice that err was given by [Advise]; "" if there is none.
func AdviceOf(err error) string {
	if e, ok := errors.AsType[*advised](err); ok {
		return e.advice
	}
	return ""
}

// absent returns a further line about a file to read that is not there, which says what to do; "" for another error, and
// for one that says it, as those of [Open] and [Write] do.
func absent(err error) string {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok || e.Op == "mkdir" || !errors.Is(e, fs.ErrNotExist) {
		return ""
	}
	if _, advice, _ := strings.Cut(Message(err), e.Err.Error()); strings.ContainsAny(advice, ":;") {
		return ""
	}
	dir := filepath.Dir(e.Path)
	there, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "\nthere is no directory " + dir + " either"
	case err != nil:
		return ""
	}
	names := make([]string, len(there))
	for i, entry := range there {
		names[i] = entry.Name()
	}
	if name := spelling.Nearest(filepath.Base(e.Path), names); name != "" {
		return "\nthere is " + filepath.Join(dir, name)
	}
	return "\n'ls " + ShellWord(dir) + "' lists what is there"
}

// Complain prints an error for a person: one line per problem, one for what can be done about it and, if the command
// line or the settings are wrong, where to look: at the help of the command of that name, "" for the program itself.
func Complain(w io.Writer, err error, command string) {
	text := strings.TrimRight(Message(err), "\n") + absent(err) + "\n" + AdviceOf(err)
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		Say(w, "crawl: %s\n", Clean(line))
	}
	switch e, ok := errors.AsType[*Error](err); {
	case !ok || e.Code != CodeUsage: // a login that fails is no matter of the help
	case command != "":
		Say(w, "Try 'crawl help %s'.\n", command)
	default:
		Say(w, "Try 'crawl --help', or 'crawl config --reference' for every setting.\n")
	}
}
