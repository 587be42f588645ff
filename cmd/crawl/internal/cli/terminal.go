package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Streams is what a command may use of its process: the standard streams and the environment.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string
}

// LookupEnv returns the value of a variable in env; the last one counts, as for a process. It returns "" if there is
// none.
func LookupEnv(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// Say writes to standard error and ignores a failure, which could be reported to nobody.
func Say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// WriteJSON writes v as one indented JSON document.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// VersionText returns what a bug report needs: the versions of the program and of Go, and the platform.
func VersionText() string {
	return fmt.Sprintf("crawl %s %s %s/%s", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Version returns the module's version as the build recorded it. A build from a checkout has "devel-" and the commit; a
// build that recorded neither has "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

// Terminal is standard error, shared by log lines and one status line at the bottom. Writes are whole lines; each one
// first clears the status line and then draws it again. Everything for people is written through a Terminal, which
// cleans it (see [Clean]). It is safe for concurrent use.
type Terminal struct {
	w     io.Writer
	width func() int   // returns the columns; nil means that there is no status line
	tty   bool         // w is a terminal
	drawn atomic.Int64 // when Refresh last drew the status line, in nanoseconds

	mu     sync.Mutex // guards what follows
	status string
	lent   bool     // the live view has the screen
	kept   []string // lines written meanwhile, at most MaxKept
	lost   int64    // older lines that were dropped from kept
}

const (
	// ClearLine returns to the left margin and erases to the right (ECMA-48 CR and EL).
	ClearLine = "\r\x1b[K"
	// UsualWidth is the width assumed of a terminal that does not report its own, and of a report in a file.
	UsualWidth = 80
	// StatusEvery is how often the status line changes. More often would flicker.
	StatusEvery = 500 * time.Millisecond
	// MaxKept is how many lines are kept while the live view has the screen.
	MaxKept = 2000
	// leastStatusProse is the least width to which the last part of a status line is cut.
	leastStatusProse = 28
)

// NewTerminal returns a Terminal that writes to w. display is the value of --progress: with tty it draws a status line
// even if w is no terminal, with plain it never draws one.
func NewTerminal(w io.Writer, env []string, display string) *Terminal {
	t := &Terminal{w: w, tty: IsTerminal(w)}
	t.drawn.Store(time.Now().UnixNano())
	// A dumb terminal would print the erase sequence instead of obeying it.
	if t.tty && LookupEnv(env, "TERM") != "dumb" && display != "plain" || display == "tty" {
		t.width = func() int { return WidthOf(w) }
	}
	return t
}

// IsTerminal reports whether w is a terminal, at which a person may sit.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// WidthOf returns the number of columns of w, or UsualWidth if w is no terminal.
func WidthOf(w any) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return UsualWidth
}

// Gone reports whether a write has failed because the terminal was closed (EIO).
func (t *Terminal) Gone(err error) bool { return t.tty && errors.Is(err, syscall.EIO) }

// Live reports whether the terminal has a status line.
func (t *Terminal) Live() bool { return t.width != nil }

// Columns returns how many columns wide a report may be.
func (t *Terminal) Columns() int {
	if t.Live() {
		return t.width()
	}
	return WidthOf(t.w)
}

// Write prints whole lines above the status line, or keeps them if the live view has the screen.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := Clean(string(p))
	if !t.lent {
		if err := t.above(t.w, []byte(text)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	for line := range strings.Lines(text) {
		t.kept = append(t.kept, strings.TrimSuffix(line, "\n"))
	}
	more := max(len(t.kept)-MaxKept, 0)
	t.kept, t.lost = t.kept[more:], t.lost+int64(more)
	return len(p), nil
}

// Lend begins to keep lines instead of printing them, until Back. It is for a view that uses the whole screen.
func (t *Terminal) Lend() {
	t.Clear()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lent = true
}

// Kept returns the last n lines kept since Lend, the oldest first.
func (t *Terminal) Kept(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.kept[max(len(t.kept)-n, 0):])
}

// Back ends Lend and prints the lines kept since then. It says how many older ones were lost.
func (t *Terminal) Back() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost > 0 {
		Say(t.w, "(%s from before are not shown; --progress plain shows all as they come)\n", Plural(t.lost, "message"))
	}
	if len(t.kept) > 0 {
		Say(t.w, "%s\n", strings.Join(t.kept, "\n"))
	}
	t.lent, t.kept, t.lost = false, nil, 0
}

func (t *Terminal) above(w io.Writer, p []byte) error {
	if t.status == "" {
		_, err := w.Write(p)
		return err
	}
	_, err := io.WriteString(t.w, ClearLine)
	if err != nil {
		return err
	}
	_, err = w.Write(p)
	if _, e := io.WriteString(t.w, t.status); err == nil {
		err = e
	}
	return err
}

// Beside returns a writer to w, which shows on the same screen, so that records on standard output and the status line
// do not tear each other. Each write must be whole lines.
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

// Write passes p on unchanged: the sink has already escaped the records.
func (n neighbour) Write(p []byte) (int, error) {
	n.t.mu.Lock()
	defer n.t.mu.Unlock()
	if err := n.t.above(n.w, p); err != nil {
		return 0, err // how much a screen shows does not matter
	}
	return len(p), nil
}

// Show replaces the status line with the parts that fit, see [Fit]. It does nothing without a status line.
func (t *Terminal) Show(parts ...string) {
	if !t.Live() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The last column stays free: some terminals wrap as soon as it is filled.
	t.status = Fit(parts, t.width()-1)
	Say(t.w, "%s", ClearLine+t.status)
}

// Refresh is Show for what changes more often than the status line should: in between it does nothing, and waits for
// nobody.
func (t *Terminal) Refresh(parts ...string) {
	now, drawn := time.Now().UnixNano(), t.drawn.Load()
	if now-drawn >= int64(StatusEvery) && t.drawn.CompareAndSwap(drawn, now) {
		t.Show(parts...)
	}
}

// Fit joins parts as long as they fit into columns. A first part that is too long is cut, and so is the last one if
// enough room is left.
func Fit(parts []string, columns int) string {
	const gap = "  "
	var b strings.Builder
	for i, part := range parts {
		part = OneLine(Clean(part))
		if i > 0 {
			part = gap + part
		}
		if free := columns - Cells(b.String()); Cells(part) > free {
			// A number cut in half would be another number, so only text is cut.
			if i == 0 || i == len(parts)-1 && free >= leastStatusProse {
				b.WriteString(Cut(part, free))
			}
			break
		}
		b.WriteString(part)
	}
	return b.String()
}

// Clear removes the status line until the next Show.
func (t *Terminal) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != "" {
		t.status = ""
		Say(t.w, "%s", ClearLine)
	}
}
