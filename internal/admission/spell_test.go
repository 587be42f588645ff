package admission_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
)

// TestDenialsAreLoggedPerChange: a thousand denials are a line when they begin and one when
// they are over, with their number.
func TestDenialsAreLoggedPerChange(t *testing.T) {
	var text bytes.Buffer
	var l admission.DenialLog
	log, clk := slog.New(slog.NewTextHandler(&text, nil)), admissiontest.NewClock()
	for range 2 {
		for range 1000 {
			l.Denied(t.Context(), log, clk, "request", admission.Denial{Rule: "all"})
			l.Allowed(t.Context(), log, clk, "request", "all")
			clk.Move(time.Millisecond)
		}
		clk.Move(time.Minute)
		l.Allowed(t.Context(), log, clk, "request", "all")
		l.Allowed(t.Context(), log, clk, "request", "all")
	}
	require.Equal(t, 4, strings.Count(text.String(), "\n"), text.String())
	require.Equal(t, 2, strings.Count(text.String(), `msg="within the limit again" what=request rule=all denied=1000 over=999ms`))
}
