package readable

import (
	"cmp"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"

	"github.com/treadlight/crawl/internal/web/dom"
)

// The notes that end the Markdown of a page that is not read in full.
const (
	partialNote = "\n\n*The page is too large: only a part of it is here.*\n"
	// strippedNote is for a page of which all text is here.
	strippedNote = "\n\n*A tag of the page has too many attributes to read them all: a link or a picture may be missing.*\n"
)

// Markdown returns the main text in GitHub's dialect of Markdown, with absolute URLs of links and pictures, cut at the
// end of a line before MaxText. It begins with the title as a heading, unless the main text begins with one. It ends
// with a line break, after a note if a part of the page is left out, and is empty if there is no main text.
func (a *Article) Markdown() string {
	text := a.Text()
	if text == "" {
		return ""
	}
	body := cmp.Or(convert(a), text) // if the converter fails the text is without formatting
	body = strings.TrimSpace(strings.ToValidUTF8(body, "\uFFFD"))
	if title := a.about.Title; title != "" && !strings.HasPrefix(body, "# ") {
		body = "# " + escape(title) + "\n\n" + body
	}
	body = strings.ReplaceAll(body, "\r", "\n")
	switch most := MaxText - len(strippedNote); {
	case len(body) > most || a.partial() && (!a.d.Stripped || a.d.Budget.Spent()):
		body = dom.Clip(body, most)
		if i := strings.LastIndexByte(body, '\n'); len(body) == most && i > most/2 {
			body = strings.TrimRight(body[:i], "\n")
		}
		return body + partialNote
	case a.d.Stripped:
		return body + strippedNote
	}
	return body + "\n"
}

// convert returns an empty text if the converter fails.
func convert(a *Article) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	c := converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false)),
		strikethrough.NewStrikethroughPlugin(),
		table.NewTablePlugin(table.WithHeaderPromotion(true), table.WithSkipEmptyRows(true),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve), table.WithSpanCellBehavior(table.SpanBehaviorMirror),
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)),
	))
	out, err := c.ConvertNode(a.tree())
	if err != nil {
		return ""
	}
	return string(out)
}

// escape makes characters of a title on one line literal in Markdown.
var escape = strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[", "<", "\\<").Replace
