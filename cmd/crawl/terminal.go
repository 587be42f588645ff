package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// terminal is standard error shared by log lines and one status line at the bottom.
// Writes are whole lines; each one first clears the status line and then draws it anew,
// so that neither tears the other. What is written is cleaned of control characters:
// this is the one place that everything for people passes. It is safe for concurrent
// use.
type terminal struct {
	w     io.Writer
	width func() int // columns; nil when there is nobody to draw a status line for
	tty   bool       // w is a terminal

	mu     sync.Mutex // guards what follows
	status string
	log    *backlog // where lines go while the live view has the screen; nil otherwise
}

// clearLine returns to the left margin and erases to the right (ECMA-48 CR and EL).
const clearLine = "\r\x1b[K"

// usualWidth is what a terminal has that does not say, and what a report in a file is
// laid out for: the width that every screen has.
const usualWidth = 80

// newTerminal wraps w. The display is a word of --progress: tty draws a status line even when
// w is no terminal, plain not even if it is one.
func newTerminal(w io.Writer, env []string, display string) *terminal {
	t := &terminal{w: w, tty: isTerminal(w)}
	// A dumb terminal would print the erase sequence instead of obeying it.
	if t.tty && lookup(env, "TERM") != "dumb" && display != "plain" || display == "tty" {
		t.width = func() int { return widthOf(w) }
	}
	return t
}

// isTerminal reports whether a person is likely to sit at the other end of w.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// widthOf is the number of columns of w.
func widthOf(w any) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return usualWidth
}

// gone reports whether a write has failed because the terminal was closed (tty_write of a
// line that has hung up says EIO): nobody is left to be told.
func (t *terminal) gone(err error) bool { return t.tty && errors.Is(err, syscall.EIO) }

// live reports whether there is a status line.
func (t *terminal) live() bool { return t.width != nil }

// columns is how wide a report may be.
func (t *terminal) columns() int {
	if t.live() {
		return t.width()
	}
	return widthOf(t.w)
}

// Write prints whole lines above the status line, or gives them to the live view.
func (t *terminal) Write(p []byte) (int, error) {
	if t.keep(p) {
		return len(p), nil
	}
	if err := t.above(t.w, []byte(clean(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// keep gives lines to the live view, if that has the screen.
func (t *terminal) keep(p []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log == nil {
		return false
	}
	t.log.add(clean(string(p)))
	return true
}

// lend has lines kept until back, for a view that has the whole screen.
func (t *terminal) lend() {
	t.clear()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = new(backlog)
}

// kept are the last n lines since lend, the oldest first.
func (t *terminal) kept(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log == nil {
		return nil
	}
	return t.log.last(n)
}

// back ends lend, and prints what was kept meanwhile: it is to be found on the screen
// afterwards, as it is without the view.
func (t *terminal) back() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log == nil {
		return
	}
	text := t.log.String()
	t.log = nil
	_, _ = io.WriteString(t.w, text) // a screen that is gone has nobody before it
}

// above writes p to w while the status line is away.
func (t *terminal) above(w io.Writer, p []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == "" {
		_, err := w.Write(p)
		return err
	}
	if _, err := io.WriteString(t.w, clearLine); err != nil {
		return err
	}
	_, err := w.Write(p)
	if _, statusErr := io.WriteString(t.w, t.status); err == nil {
		err = statusErr
	}
	return err
}

// beside is w, which shows on the same screen, so that records on standard output and
// the status line on standard error do not tear each other. What is written must be
// whole lines.
func (t *terminal) beside(w io.Writer) io.Writer {
	if !t.live() || !isTerminal(w) {
		return w
	}
	return neighbour{t, w}
}

type neighbour struct {
	t *terminal
	w io.Writer
}

// Write passes p on unchanged: records come escaped from the sink.
func (n neighbour) Write(p []byte) (int, error) {
	if err := n.t.above(n.w, p); err != nil {
		return 0, err // all or nothing: how much was shown does not matter on a screen
	}
	return len(p), nil
}

// show replaces the status line. Parts that do not fit into the width are left out from
// the first that does not, so that the line stays one line.
func (t *terminal) show(parts ...string) {
	if !t.live() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The last column stays free: some terminals wrap as soon as it is filled.
	t.status = fit(parts, t.width()-1)
	_, _ = io.WriteString(t.w, clearLine+t.status) // a status line has nobody to tell of its failure
}

// leastStatusProse is what the last part of a status line is cut to at most: room for
// the name of a host and the beginning of a reason.
const leastStatusProse = 28

// fit joins as many parts as the columns hold; the last one that begins to fit is cut.
func fit(parts []string, columns int) string {
	const gap = "  "
	var b strings.Builder
	for i, part := range parts {
		part = strings.ReplaceAll(clean(part), "\n", " ")
		if i > 0 {
			part = gap + part
		}
		if free := columns - cells(b.String()); cells(part) > free {
			// A number cut in half would be another number: only prose is cut.
			if i == 0 || i == len(parts)-1 && free >= leastStatusProse {
				b.WriteString(cut(part, free))
			}
			break
		}
		b.WriteString(part)
	}
	return b.String()
}

// clear removes the status line for good.
func (t *terminal) clear() {
	if !t.live() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != "" {
		t.status = ""
		_, _ = io.WriteString(t.w, clearLine)
	}
}
