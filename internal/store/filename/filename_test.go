package filename

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestComponent(t *testing.T) {
	for _, c := range []struct{ s, ext, want string }{
		{"a", ".html", "a.html"},
		{"", "", "%"},
		{"a%20b", "", "a b"},
		{" a ", "", "%20a%20"},
		{".", "", "%2E"},
		{"a.", ".css", "a..css"},
		{"a:b*c%7Cd<e>\"\\?", "", "a%3Ab%2Ac%7Cd%3Ce%3E%22%5C%3F"},
		{"100%25", "", "100%25"},
		{"%FF\u202e", "", "%FF%E2%80%AE"},
		{"con", ".x", "_con.x"},
		{"COM¹.tar", "", "_COM¹.tar"},
		{"e\u0301", "", "é"},
		{"~x", "", "%7Ex"},
	} {
		assert.Equal(t, c.want, Component(c.s, c.ext, 40), c.s)
	}
	assert.True(t, IsDevice("aux.html"))
	assert.False(t, IsDevice("auxiliary"))
	assert.Equal(t, Fold("K/Ä"), Fold("\u212a/a\u0308"), "case and form of an accent")
}

// FuzzComponent: every text gives one component of bounded length that stays in its directory, and different texts give
// different ones.
func FuzzComponent(f *testing.F) {
	f.Add("..%2f..", "con.%00")
	f.Add(strings.Repeat("é", 60), strings.Repeat("é", 61))
	f.Fuzz(func(t *testing.T, a, b string) {
		name := Component(a, ".x", 50)
		assert.True(t, filepath.IsLocal(name), name)
		assert.Equal(t, name, filepath.Base(name))
		assert.LessOrEqual(t, len(name), 51)
		assert.True(t, utf8.ValidString(name))
		assert.False(t, IsDevice(name), name)
		if strings.ToValidUTF8(a+b, "") == a+b && !strings.Contains(a+b, "%") && Fold(a) != Fold(b) {
			assert.NotEqual(t, name, Component(b, ".x", 50))
		}
	})
}
