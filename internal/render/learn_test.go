package render

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scripts"
)

func TestLearned(t *testing.T) {
	var saved string
	l := newLearned("4 0\nx y z\n9 9 a.test/p\n", func(text string) { saved = text })
	u := func(path string) canonical.URL {
		at := must(canonical.Parse("https://a.test" + path))
		return at
	}
	require.Equal(t, "app_root", l.judge(u("/p/1"), scripts.Root))
	for range enough {
		l.note(u("/p/2"), true)
		l.note(u("/q/2"), false)
	}
	require.Equal(t, whyLearned, l.judge(u("/p/3"), ""))
	require.Empty(t, l.judge(u("/q/3"), scripts.Bare))
	require.Equal(t, "controls", l.judge(u("/q/3"), scripts.Controls))
	require.Empty(t, l.judge(u("/r/3"), ""))
	require.Equal(t, "4 0 a.test/p/*/&\n0 4 a.test/q/*/&\n", saved)
	l = newLearned(saved, nil)
	require.Equal(t, whyLearned, l.judge(u("/p/3"), ""), "also in a later run")
	require.Empty(t, l.judge(u("/q/3"), scripts.Bare))
	l.note(u("/p/4"), false)
	require.Empty(t, l.judge(u("/p/3"), ""), "not always")
}
