package watch

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
)

// A line of a file counts as a change only if it is the whole change that the database has under that number.
func TestFileHasOtherChanges(t *testing.T) {
	for name, tc := range map[string]struct{ added, want string }{
		"of a newer database":                {`{"id":"WATCH-2","url":"x"}` + "\n" + `{"id":"WATCH-9"}` + "\n", two + three},
		"a part, continued by others":        {`{"id":"WATCH-3","time":"00a line of others` + "\n", two + three},
		"a change, then a part, then others": {two + `{"id":"WATCH-3","time":"00a line of others` + "\n", three},
		"a part with another number":         {two + `{"id":"WATCH-1a line of others` + "\n", three},
	} {
		t.Run(name, func(t *testing.T) {
			w, of, _ := watchedAfter(t, tc.added)
			defer w.end()
			text, err := os.ReadFile(w.file)
			require.NoError(t, err)
			require.Equal(t, of(one+tc.added+tc.want), string(text))
		})
	}
}

// A change of a template is short, however long the URLs of its pages are, so that it is found at the end of a file.
func TestTemplateIsShort(t *testing.T) {
	const pages = 20
	s := newSite(t, map[string]answer{})
	var links []string
	for i := range pages {
		links = append(links, fmt.Sprintf("/%d%s", i, strings.Repeat("x", 4000)))
	}
	set := func(version string) {
		for i, link := range links {
			s.set(link, answer{text: fmt.Sprintf("<title>Item %d</title><main><p>Text of %[1]d</p><p>Order now</p><p>%s built this site</p></main>", i, version)})
		}
	}
	s.set("/", text("Home", links...))
	set("Ann")
	w := watched(t, t.TempDir(), clocktest.NewFake(begin), true, 0, s.URL)
	defer w.end()
	w.round(0)
	set("Bob")
	_, told := w.round(time.Hour)
	require.Len(t, told, 1)
	change := w.told()[0]
	require.Equal(t, pages, change.Pages)
	require.NotEmpty(t, change.Examples)
	require.Less(t, len(strings.Join(change.Examples, "")), 33<<10)
}
