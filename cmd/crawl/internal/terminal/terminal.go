// Package terminal writes to standard error for people: log lines, one status line below them, and
// what the live view keeps while it has the screen. It also holds what a command may touch of its
// process.
package terminal

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/treadlight/crawl/cmd/crawl/internal/human"
)

// Terminal is standard error shared by log lines and one status line at the bottom.
// Writes are whole lines; each one first clears the status line and then draws it anew,
// so that neither tears the other. What is written is cleaned of control characters:
// this is the one place that everything for people passes. It is safe for concurrent
// use.
type Terminal struct {
	w     io.Writer
	width func() int // columns; nil when there is nobody to draw a status line for
	tty   bool       // w is a terminal

	mu     sync.Mutex // guards what follows
	status string
	log    *backlog // where lines go while the live view has the screen; nil otherwise
}

// ClearLine returns to the left margin and erases to the right (ECMA-48 CR and EL).
const ClearLine = "\r\x1b[K"

// UsualWidth is what a terminal has that does not say, and what a report in a file is
// laid out for: the width that every screen has.
const UsualWidth = 80

// StatusEvery is how often the status line changes: a person reads one that changes twice a
// second; more only flickers.
const StatusEvery = 500 * time.Millisecond

// New wraps w. The display is a word of --progress: tty draws a status line even when
// w is no terminal, plain not even if it is one.
func New(w io.Writer, env []string, display string) *Terminal {
	t := &Terminal{w: w, tty: IsTerminal(w)}
	// A dumb terminal would print the erase sequence instead of obeying it.
	if t.tty && LookupEnv(env, "TERM") != "dumb" && display != "plain" || display == "tty" {
		t.width = func() int { return WidthOf(w) }
	}
	return t
}

// WithWidth is a terminal of that width which is no device, for tests.
func WithWidth(w io.Writer, width func() int) *Terminal { return &Terminal{w: w, width: width} }

// IsTerminal reports whether a person is likely to sit at the other end of w.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// WidthOf is the number of columns of w.
func WidthOf(w any) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return UsualWidth
}

// Gone reports whether a write has failed because the terminal was closed (tty_write of a
// line that has hung up says EIO): nobody is left to be told.
func (t *Terminal) Gone(err error) bool { return t.tty && errors.Is(err, syscall.EIO) }

// Live reports whether there is a status line.
func (t *Terminal) Live() bool { return t.width != nil }

// Columns is how wide a report may be.
func (t *Terminal) Columns() int {
	if t.Live() {
		return t.width()
	}
	return WidthOf(t.w)
}

// Write prints whole lines above the status line, or gives them to the live view.
func (t *Terminal) Write(p []byte) (int, error) {
	if t.keep(p) {
		return len(p), nil
	}
	if err := t.above(t.w, []byte(human.Clean(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// keep gives lines to the live view, if that has the screen.
func (t *Terminal) keep(p []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log == nil {
		return false
	}
	t.log.add(human.Clean(string(p)))
	return true
}

// Lend has lines kept until back, for a view that has the whole screen.
func (t *Terminal) Lend() {
	t.Clear()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = new(backlog)
}

// Kept are the last n lines since lend, the oldest first.
func (t *Terminal) Kept(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log == nil {
		return nil
	}
	return t.log.last(n)
}

// Back ends lend, and prints what was kept meanwhile: it is to be found on the screen
// afterwards, as it is without the view.
func (t *Terminal) Back() {
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
func (t *Terminal) above(w io.Writer, p []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == "" {
		_, err := w.Write(p)
		return err
	}
	if _, err := io.WriteString(t.w, ClearLine); err != nil {
		return err
	}
	_, err := w.Write(p)
	if _, statusErr := io.WriteString(t.w, t.status); err == nil {
		err = statusErr
	}
	return err
}

// Beside is w, which shows on the same screen, so that records on standard output and
// the status line on standard error do not tear each other. What is written must be
// whole lines.
func (t *Terminal) Beside(w io.Writer) io.Writer {
	if !t.Live() || !IsTerminal(w) {
		return w
	}
	return neighbour{t, w}
}

type neighbour struct {
	t *Terminal
	w io.Writer
}

// Write passes p on unchanged: records come escaped from the sink.
func (n neighbour) Write(p []byte) (int, error) {
	if err := n.t.above(n.w, p); err != nil {
		return 0, err // all or nothing: how much was shown does not matter on a screen
	}
	return len(p), nil
}

// Show replaces the status line. Parts that do not fit into the width are left out from
// the first that does not, so that the line stays one line.
func (t *Terminal) Show(parts ...string) {
	if !t.Live() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The last column stays free: some terminals wrap as soon as it is filled.
	t.status = Fit(parts, t.width()-1)
	_, _ = io.WriteString(t.w, ClearLine+t.status) // a status line has nobody to tell of its failure
}

// leastStatusProse is what the last part of a status line is cut to at most: room for
// the name of a host and the beginning of a reason.
const leastStatusProse = 28

// Fit joins as many parts as the columns hold; the last one that begins to fit is cut.
func Fit(parts []string, columns int) string {
	const gap = "  "
	var b strings.Builder
	for i, part := range parts {
		part = strings.ReplaceAll(human.Clean(part), "\n", " ")
		if i > 0 {
			part = gap + part
		}
		if free := columns - human.Cells(b.String()); human.Cells(part) > free {
			// A number cut in half would be another number: only prose is cut.
			if i == 0 || i == len(parts)-1 && free >= leastStatusProse {
				b.WriteString(human.Cut(part, free))
			}
			break
		}
		b.WriteString(part)
	}
	return b.String()
}

// Clear removes the status line for good.
func (t *Terminal) Clear() {
	if !t.Live() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != "" {
		t.status = ""
		_, _ = io.WriteString(t.w, ClearLine)
	}
}
