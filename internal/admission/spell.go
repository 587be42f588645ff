package admission

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// quietAfter is after how long without a denial a limit is said to deny no more.
const quietAfter = time.Minute

// DenialLog writes a line when denials begin and one, with their number, when there have been
// none for a minute and a call is let in, however many there were: a log of each would be as
// long as an attacker likes. The zero DenialLog is ready; it is safe for concurrent use and must
// not be copied.
type DenialLog struct {
	denying atomic.Bool // set with mu held

	mu          sync.Mutex // guards what follows
	since, last time.Time
	denied      int64
}

// Denied counts a denial of what, a request or a call. If it is the first, it is written.
func (l *DenialLog) Denied(ctx context.Context, log *slog.Logger, clk clock.Clock, what string, record slog.LogValuer) {
	now := clk.Now()
	l.mu.Lock()
	first := !l.denying.Load()
	if first {
		l.since, l.denied = now, 0
		l.denying.Store(true)
	}
	l.last = now
	l.denied++
	l.mu.Unlock()
	if first {
		attrs := append([]slog.Attr{slog.String("what", what)}, record.LogValue().Resolve().Group()...)
		log.LogAttrs(ctx, slog.LevelInfo, "over the limit", attrs...)
	}
}

// Allowed notes that a call was let in.
func (l *DenialLog) Allowed(ctx context.Context, log *slog.Logger, clk clock.Clock, what, name string) {
	if !l.denying.Load() {
		return
	}
	now := clk.Now()
	l.mu.Lock()
	over := l.denying.Load() && now.Sub(l.last) >= quietAfter
	denied, lasted := l.denied, l.last.Sub(l.since)
	if over {
		l.denying.Store(false)
	}
	l.mu.Unlock()
	if over {
		log.LogAttrs(ctx, slog.LevelInfo, "within the limit again", slog.String("what", what), slog.String("rule", name),
			slog.Int64("denied", denied), slog.Duration("over", lasted))
	}
}
