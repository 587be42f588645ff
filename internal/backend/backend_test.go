package backend

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlot(t *testing.T) {
	s := New[int]("counting", "numbers")
	_, err := s.Get()
	require.EqualError(t, err, `counting needs a package that this program does not import: add import _ "github.com/treadlight/crawl/numbers"`)
	s.Register(0)
	n, err := s.Get()
	require.NoError(t, err)
	require.Zero(t, n)
	require.PanicsWithValue(t, "backend: two packages register what github.com/treadlight/crawl/numbers is for", func() { s.Register(1) })
}
