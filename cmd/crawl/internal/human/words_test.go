package human

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"a few", "words"}, Wrap("a few  words", 6))
	require.Equal(t, []string{"unbreakable", "x"}, Wrap("unbreakable x", 3))
	require.Equal(t, []string{""}, Wrap("", 3))
}
