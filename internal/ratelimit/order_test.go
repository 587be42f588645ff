package ratelimit

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestOrder holds an order against a slice that does the same.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o order
		var want []*state
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch do := rapid.IntRange(0, 3).Draw(t, "do"); {
			case do == 0 && len(want) > 0:
				i := rapid.IntRange(0, len(want)-1).Draw(t, "i")
				o.remove(want[i])
				require.Nil(t, want[i].newer, "it keeps nobody alive")
				require.Nil(t, want[i].older)
				want = slices.Delete(want, i, i+1)
			case do == 1 && len(want) > 0:
				o.renew()
				want = append(want[1:], want[0])
			default:
				s := new(state)
				o.add(s)
				want = append(want, s)
			}
			require.Equal(t, len(want), o.n)
			if !slices.Equal(want, o.list()) {
				t.Fatal("not in the order of use")
			}
			if len(want) == 0 {
				require.Nil(t, o.oldest)
			}
		}
	})
}
