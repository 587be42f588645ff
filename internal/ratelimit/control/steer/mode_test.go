package steer

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever happens in whatever mode leads to a mode that can be left, a refusal always ends in a pause,
// and the documentation has the drawing of the table.
func TestModes(t *testing.T) {
	reached, todo := map[Mode]bool{Search: true}, []Mode{Search}
	for len(todo) > 0 {
		m := todo[0]
		todo = todo[1:]
		require.Equal(t, Wait, next[m][Refused], m.String())
		for e := range events {
			s := &Steer{mode: m}
			s.on(1, e)
			require.Less(t, s.mode, modes, "%v after %s", m, eventNames[e])
			if !reached[s.mode] {
				reached[s.mode], todo = true, append(todo, s.mode)
			}
		}
	}
	require.Len(t, reached, int(modes))
	page, err := os.ReadFile("../../../../docs/explanation/controller.md")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(page), Drawing()), "docs/explanation/controller.md wants:\n%s", Drawing())
}
