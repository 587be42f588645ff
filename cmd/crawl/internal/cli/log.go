package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/config"
)

// LevelOf returns the log level of a word. The configuration has checked the word; any other means info.
func LevelOf(word string) (level slog.Level) {
	if err := level.UnmarshalText([]byte(word)); err != nil {
		level = slog.LevelInfo
	}
	return level
}

// NewLogger returns a logger to t, which is standard error: lines for people, or JSON for machines.
func NewLogger(t *Terminal, cfg *config.Log, level slog.Leveler) *slog.Logger {
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(t, &slog.HandlerOptions{Level: level}))
	}
	layout := time.RFC3339 // with the date, since a log file is read on other days
	if t.Live() {
		layout = time.TimeOnly
	}
	return slog.New(NewLineHandler(t, level, layout))
}

// lineHandler writes one line per message: time, level unless it is info, message, and the attributes as key=value.
// While debug messages are off, it writes a warning about the same subject at most once a minute.
type lineHandler struct {
	*lineOutput
	attrs slog.Handler // writes the attributes into lineOutput.buf
}

// lineOutput is what a handler shares with the handlers derived from it by With.
type lineOutput struct {
	w      io.Writer
	layout string

	mu   sync.Mutex // guards what follows
	buf  bytes.Buffer
	told map[string]time.Time // when each warning was last written
}

const (
	repeatAfter = time.Minute
	// maxTold bounds told: when it is full, all warnings are forgotten, and some may be written again early.
	maxTold = 1024
)

// NewLineHandler returns a handler that writes a line for each message to w. The time has the given layout, see
// [time.Time.Format].
func NewLineHandler(w io.Writer, level slog.Leveler, layout string) slog.Handler {
	out := &lineOutput{w: w, layout: layout, told: make(map[string]time.Time)}
	onlyAttrs := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{} // Handle has written these in front
		}
		return a
	}
	return &lineHandler{out, slog.NewTextHandler(&out.buf, &slog.HandlerOptions{Level: level, ReplaceAttr: onlyAttrs})}
}

func (h *lineHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.attrs.Enabled(ctx, l) }

func (h *lineHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.Enabled(ctx, slog.LevelDebug) && h.repeatedLocked(&r) {
		return nil
	}
	h.buf.Reset()
	h.buf.WriteString(r.Time.Format(h.layout) + " ")
	if r.Level != slog.LevelInfo {
		h.buf.WriteString(strings.ToLower(r.Level.String()) + ": ")
	}
	h.buf.WriteString(r.Message + "  ")
	if err := h.attrs.Handle(ctx, r); err != nil {
		return err
	}
	_, err := h.w.Write(append(bytes.TrimRight(h.buf.Bytes(), " \n"), '\n'))
	return err
}

// repeatedLocked reports whether a warning with the same text and the same first attribute, which names its subject,
// was written less than a minute ago.
func (h *lineHandler) repeatedLocked(r *slog.Record) bool {
	if r.Level != slog.LevelWarn || r.NumAttrs() == 0 {
		return false
	}
	key := r.Message
	r.Attrs(func(a slog.Attr) bool {
		key += "\x00" + a.Value.String()
		return false
	})
	if last, ok := h.told[key]; ok && r.Time.Sub(last) < repeatAfter {
		return true
	}
	if len(h.told) >= maxTold {
		clear(h.told)
	}
	h.told[key] = r.Time
	return false
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lineHandler{h.lineOutput, h.attrs.WithAttrs(attrs)}
}

func (h *lineHandler) WithGroup(name string) slog.Handler {
	return &lineHandler{h.lineOutput, h.attrs.WithGroup(name)}
}
