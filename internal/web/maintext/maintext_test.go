package maintext_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/maintext"
)

type article struct{}

func (article) About() maintext.About { return maintext.About{Title: "as Readability cleans it"} }
func (article) Text() string          { return "text" }
func (article) Markdown() string      { return "# Heading\n\ntext\n" }

// A file has the title that JSON has: the title element and, without one, the heading.
func TestOneTitle(t *testing.T) {
	for element, want := range map[string]string{"News | Site": "News | Site", "": "Heading"} {
		require.Equal(t, want, maintext.Title(element, article{}.Markdown()))
		require.Contains(t, maintext.File(article{}, element, "http://a.test/", time.Time{}), "---\ntitle: \""+want+"\"\n")
	}
}
