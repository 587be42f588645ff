package assembly

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever asks for it has panics as they are.
func TestPanicsMayEndTheProgram(t *testing.T) {
	boom := func() error { panic("boom") }
	require.PanicsWithValue(t, "boom", func() { _ = guard{panics: true}.call("OnRequest", boom) })
	require.EqualError(t, guard{}.call("OnRequest", boom), "panic: boom")
	c := Config{Own: Own{OnRequest: func(*http.Request) error { return boom() }}}
	c.Panics = true
	require.NoError(t, c.Embed("Options"))
	require.PanicsWithValue(t, "boom", func() { _ = c.OnRequest(nil) })
}
