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

// LevelOf reads the word of a level, which the configuration has checked.
func LevelOf(word string) (level slog.Level) {
	if err := level.UnmarshalText([]byte(word)); err != nil {
		level = slog.LevelInfo
	}
	return level
}

// NewLogger writes what people may want to know to standard error: lines for people, or JSON for machines.
func NewLogger(t *Terminal, cfg *config.Log, level slog.Leveler) *slog.Logger {
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(t, &slog.HandlerOptions{Level: level}))
	}
	layout := time.RFC3339 // a file is read on another day
	if t.Live() {
		layout = time.TimeOnly
	}
	return slog.New(NewLineHandler(t, level, layout))
}

// lineHandler writes one line per message: time, level unless it is info, message, and the attributes as key=value.
// While debug messages are off it tells a warning about one subject once a minute.
type lineHandler struct {
	*lineOutput
	attrs slog.Handler // writes the attributes into lineOutput.buf
}

// lineOutput is what a handler shares with those derived from it by With.
type lineOutput struct {
	w      io.Writer
	layout string

	mu   sync.Mutex // guards what follows
	buf  bytes.Buffer
	told map[string]time.Time // when a warning was last told
}

const (
	repeatAfter = time.Minute
	// maxTold bounds the memory of warnings: when it is full all are forgotten, and some told again.
	maxTold = 1024
)

// NewLineHandler writes a line for each message to w; layout is that of the time.
func NewLineHandler(w io.Writer, level slog.Leveler, layout string) slog.Handler {
	out := &lineOutput{w: w, layout: layout, told: make(map[string]time.Time)}
	onlyAttrs := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{} // the line begins with them, in a form of its own
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

// repeatedLocked reports whether a warning with the same first attribute, which names its subject, was told less than
// a minute ago.
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
