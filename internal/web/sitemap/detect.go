package sitemap

import (
	"bytes"
	"strings"
)

// looked is how much of a document Detect reads to find its root: license texts and
// stylesheet instructions stand before it, seldom more.
const looked = 8 << 10

// Detect is the format of a document that was not asked for as one of ours, by its root
// element; [None] for everything else, lists in plain text included. The media type is
// without parameters and may be wrong: only that of HTML is believed.
func Detect(mediaType string, body []byte) Format {
	if strings.EqualFold(mediaType, "text/html") || strings.EqualFold(mediaType, "application/xhtml+xml") {
		return None
	}
	head := body[:min(len(body), 64)]
	if head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte(mark)), space); len(head) < 2 {
		return None
	}
	switch head[0] {
	case '<', 0, 0x1f, 0xfe, 0xff:
	default:
		return None
	}
	r := reader{strict: true, yield: func(Entry) bool { return true }}
	if r.w.open(body, "", looked) != nil {
		return None
	}
	for !r.root && !r.stopped {
		if _, ok := r.w.through("<"); !ok {
			break
		}
		r.markupAt()
	}
	return r.sum.Format
}
