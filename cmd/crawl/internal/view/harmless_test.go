package view

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier"
)

// Nothing that a stranger wrote commands the screen of a person, whichever way it gets
// there: as a message, an attribute, an error, the status line or a line of the report.
func TestEverythingForPeopleIsHarmless(t *testing.T) {
	for _, s := range []string{
		"\x1b[2J\x1b[31m", "\x1b]0;owned\a", "\x1b]8;;http://evil.test\x1b\\click\x1b]8;;\x1b\\", "\u009b31m\u009d0;x\u009c", "\x1bP+q\x1b\\",
		"bad\rgood", "\b\b\b", "one\ntwo", "one\u2028two\u0085three", "exe.\u202etxt", "\u2066x\u2069\u200e\u061c", "a\x00b\x7f", "\xff\xfe\xc3(", "\ufeff\u200b",
	} {
		for way, write := range map[string]func(*cli.Terminal, *bytes.Buffer){
			"written": func(term *cli.Terminal, _ *bytes.Buffer) { _, _ = io.WriteString(term, s+"\n") },
			"beside":  func(term *cli.Terminal, _ *bytes.Buffer) { _, _ = fmt.Fprintln(term, "error:", s) },
			"status":  func(term *cli.Terminal, _ *bytes.Buffer) { term.Show("1s", s) },
			"group": func(term *cli.Terminal, _ *bytes.Buffer) {
				cli.NewLogger(term, &config.Log{}, slog.LevelDebug).Warn("m", slog.Group(s, slog.String("a", s)))
			},
			"as JSON": func(term *cli.Terminal, _ *bytes.Buffer) {
				cli.NewLogger(term, &config.Log{Format: "json"}, slog.LevelDebug).Warn("m", slog.String(s, s))
			},
			"subject": func(term *cli.Terminal, _ *bytes.Buffer) {
				cli.NewLogger(term, &config.Log{}, slog.LevelDebug).Info("m", slog.String("host", s))
			},
			"an error": func(term *cli.Terminal, _ *bytes.Buffer) {
				cli.NewLogger(term, &config.Log{}, slog.LevelDebug).Error("m", slog.Any("error", errors.New(s)))
			},
			"reported": func(_ *cli.Terminal, b *bytes.Buffer) {
				r := Report{Columns: 80, Records: s, Events: s, GoOn: s, Over: s, Snap: hostileSnapshot(s)}
				require.NoError(t, r.Write(b))
			},
		} {
			term, b := screen()
			write(term, b)
			text := strings.ReplaceAll(b.String(), cli.ClearLine, "") // which is ours
			require.True(t, utf8.ValidString(text), "%q %s", s, way)
			for _, r := range text {
				if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) || unicode.Is(unicode.Bidi_Control, r)) {
					t.Errorf("%q %s: %q holds %U", s, way, text, r)
				}
			}
		}
	}
}

// hostileSnapshot has s wherever a crawl tells of strangers.
func hostileSnapshot(s string) *crawl.Snapshot {
	snap := busy()
	snap.Reason = s
	snap.OutOfScope, snap.Dropped = map[string]int64{s: 1}, map[string]int64{s: 2}
	snap.Hosts = []frontier.HostState{{Host: s, Pages: 1, Queued: 2, Reason: s, Trouble: s, Failures: 3}}
	return snap
}
