package crawl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever asks for it has panics as they are.
func TestPanicsMayEndTheProgram(t *testing.T) {
	boom := func() error { panic("boom") }
	o := Options{Panics: true}
	require.PanicsWithValue(t, "boom", func() { _ = o.guard("OnRequest", boom) })
	require.True(t, must(o.inner()).Panics)
	require.EqualError(t, new(Options).guard("OnRequest", boom), "panic: boom")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
