package steer

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	modeNames  = [modes]string{"search", "cruise", "probe", "recover", "wait"}
	eventNames = [events]string{"refused", "bounded", "raised", "promising", "settled", "returning", "restarted"}
)

// drawing returns the table as text, a line for each change of mode.
func drawing() string {
	var b strings.Builder
	for m := range modes {
		for to := range modes {
			var by []string
			for e := range events {
				if next[m][e] == to && m != to {
					by = append(by, eventNames[e])
				}
			}
			if by != nil {
				fmt.Fprintf(&b, "%-8s -> %-8s %s\n", modeNames[m], modeNames[to], strings.Join(by, ", "))
			}
		}
	}
	return b.String()
}

// Whatever happens in whatever mode leads to a mode that can be left, a refusal always begins a pause, and the
// documentation shows the table.
func TestModes(t *testing.T) {
	reached, todo := map[Mode]bool{Search: true}, []Mode{Search}
	for len(todo) > 0 {
		m := todo[0]
		todo = todo[1:]
		require.Equal(t, Wait, next[m][Refused], modeNames[m])
		for e := range events {
			s := &Steer{mode: m}
			s.on(1, e)
			require.Less(t, s.mode, modes, "%s after %s", modeNames[m], eventNames[e])
			if !reached[s.mode] {
				reached[s.mode], todo = true, append(todo, s.mode)
			}
		}
	}
	require.Len(t, reached, int(modes))
	page, err := os.ReadFile("../../../../docs/explanation/controller.md")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(page), drawing()), "docs/explanation/controller.md wants:\n%s", drawing())
}
