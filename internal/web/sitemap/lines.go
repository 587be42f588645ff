package sitemap

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// lines reads a list of URLs, one per line. At the first "<" where no URL is, markup follows,
// such as after the warning of a script.
func (r *reader) lines() {
	for r.goesOn() {
		r.blanks()
		head := r.w.peek(len("https://"))
		switch {
		case len(head) == 0:
			return
		case isWeb(head):
			r.lineURL()
		case r.junk():
			r.markupAt()
			r.markup()
			return
		}
	}
}

// blanks skips space and empty lines.
func (r *reader) blanks() {
	for {
		c, n := utf8.DecodeRune(r.w.peek(utf8.UTFMax))
		if n == 0 || c > ' ' && !strings.ContainsRune(space, c) {
			return
		}
		r.w.skip(n)
	}
}

func isWeb(head []byte) bool {
	s := strings.ToLower(string(head))
	return strings.HasPrefix(s, "http://") || s == "https://"
}

// lineURL reads a line. The last one of a truncated document is not whole.
func (r *reader) lineURL() {
	line, ended := r.w.through("\n")
	if !ended && (r.doc.Truncated || r.w.cut || r.w.err != nil) {
		return
	}
	// Old Macintoshes end lines with a carriage return alone.
	for part := range bytes.SplitSeq(bytes.Trim(line, space), []byte("\r")) {
		if u, ok := r.resolve(part); ok {
			r.sum.Format = Text
			r.emit(&Entry{URL: u, Priority: DefaultPriority})
		}
	}
}

// junk skips a line without a URL, or up to markup, which it reports.
func (r *reader) junk() (markup bool) {
	for first := true; ; first = false {
		head := r.w.peek(windowSize / 4)
		i := bytes.IndexAny(head, "\r\n<")
		if i < 0 {
			i = len(head)
		}
		if i > 0 && first {
			r.problem("%.60q is no URL", head[:i])
		}
		end := i == len(head)
		r.w.skip(i)
		switch {
		case len(head) == 0:
			return false
		case !end:
			r.w.skip(1)
			return head[i] == '<'
		}
	}
}
