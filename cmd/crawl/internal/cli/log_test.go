package cli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/config"
)

func TestLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble's clock begins at a known time
		var b bytes.Buffer
		log := slog.New(NewLineHandler(&b, slog.LevelInfo, time.TimeOnly))
		now := time.Now().Format(time.TimeOnly)
		log.Debug("not shown")
		log.Info("without attributes")
		log.With(slog.Int("a", 1)).WithGroup("g").Error("a message", slog.Any("error", errors.New("two\nlines \x1b[2J")))
		log.Info("a key of ours", slog.String("msg", "kept"), slog.Group("g", slog.String("time", "kept")))
		require.Equal(t, now+" without attributes\n"+
			now+` error: a message  a=1 g.error="two\nlines \x1b[2J"`+"\n"+
			now+" a key of ours  g.time=kept\n", b.String())
	})
}

// A warning about one subject is told once a minute, others at once.
func TestRepeatedWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for level, want := range map[slog.Level]int{slog.LevelInfo: 4, slog.LevelDebug: 122} {
			var b bytes.Buffer
			log := slog.New(NewLineHandler(&b, level, time.TimeOnly))
			for i := range 120 {
				log.Warn("down", slog.String("host", "a.test"), slog.Int("attempt", i))
				time.Sleep(time.Second)
			}
			log.Warn("down", slog.String("host", "b.test"))
			log.Warn("up", slog.String("host", "a.test"))
			require.Equal(t, want, bytes.Count(b.Bytes(), []byte("\n")), level)
		}
	})
}

// What is remembered of warnings is bounded.
func TestToldIsBounded(t *testing.T) {
	h := NewLineHandler(&bytes.Buffer{}, slog.LevelInfo, time.TimeOnly).(*lineHandler)
	for i := range 3 * maxTold {
		slog.New(h).Warn("down", slog.String("host", fmt.Sprint(i)))
		require.LessOrEqual(t, len(h.told), maxTold)
	}
}

func TestLoggerFormats(t *testing.T) {
	var b bytes.Buffer
	NewLogger(&Terminal{w: &b}, &config.Log{Format: "json"}, slog.LevelWarn).Warn("for machines")
	require.Contains(t, b.String(), `"level":"WARN","msg":"for machines"`)
	b.Reset()
	NewLogger(&Terminal{w: &b}, &config.Log{}, slog.LevelWarn).Warn("for a file")
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\S+ warn: for a file\n$`, b.String())
	b.Reset()
	NewLogger(&Terminal{w: &b, width: func() int { return 80 }}, &config.Log{}, slog.LevelWarn).Warn("for a person")
	require.Regexp(t, `^\d\d:\d\d:\d\d warn: for a person\n$`, b.String())
}
