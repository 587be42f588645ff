package extract

import (
	"bytes"

	"golang.org/x/net/html/atom"
)

// rawElement is name if its content is raw text, or "". The extractor handles XHTML and foreign
// elements.
func rawElement(name []byte) string {
	switch string(name) {
	case "script", "style", "title", "textarea", "iframe", "noscript", "noframes", "noembed", "xmp", "plaintext":
		return atom.String(name) // without allocation
	}
	return ""
}

// rawText reads the content of the element just begun and reports whether it has any: there are
// no empty text tokens.
func (s *scanner) rawText() bool {
	from, to := s.at, RawTextEnd(s.body, s.at, s.raw)
	s.setText(from, to, to)
	s.verbatim = s.raw != "textarea" && s.raw != "title"
	s.noNUL = true
	s.raw = ""
	return to > from
}

// RawTextEnd is where the end tag of a raw text element is whose content begins at i, or the end
// of s. The name is in lower case.
func RawTextEnd(s []byte, i int, name string) int {
	switch name {
	case "plaintext": // which nothing ends
		return len(s)
	case "script":
		return scriptEnd(s, i)
	}
	return rawEnd(s, i, name)
}

func rawEnd(s []byte, i int, name string) int {
	for {
		n := bytes.Index(s[i:], []byte("</"))
		if n < 0 {
			return len(s)
		}
		i += n + len("</")
		if isTag(s, i, name) {
			return i - len("</")
		}
	}
}

// isTag reports whether the tag name at i is name. At the end of the page it is not: the name
// could go on.
func isTag(s []byte, i int, name string) bool {
	if i+len(name) >= len(s) {
		return false
	}
	return spells(s[i:i+len(name)], name) && kinds[s[i+len(name)]]&endsName != 0
}

// scriptEnd is where the end tag of a script is, or the end of s. Old pages hide scripts in
// comments, and a script in a comment may contain a script: §13.2.5.15 to 31. Where a comment
// contains a "<" that begins no tag it ends, as in x/net/html; by the standard it goes on.
func scriptEnd(s []byte, i int) int {
	const tag, comment = "script", "<!--"
	for {
		n := bytes.IndexByte(s[i:], '<')
		if n < 0 {
			return len(s)
		}
		i += n
		switch {
		case hasPrefix(s[i:], "</") && isTag(s, i+len("</"), tag):
			return i
		case hasPrefix(s[i:], comment):
			var end bool
			if i, end = hiddenScript(s, i+len(comment)); end {
				return i
			}
		default:
			i++
		}
	}
}

// hiddenScript reads a script within a comment, up to the end of either, and reports whether it
// was that of the script.
//
// The eleven states of the standard are two values: how many dashes came right before, since two
// and a ">" end the comment, and whether another script was begun within it.
func hiddenScript(s []byte, i int) (next int, end bool) {
	const tag = "script"
	nested := false                // within a script within the comment
	for dashes := 2; i < len(s); { // those of "<!--" count
		c := s[i]
		i++
		switch {
		case c == '-':
			dashes++
			continue
		case c == '>' && dashes >= 2:
			return i, false
		case c != '<':
		case i == len(s): // a "<" at the end of the page
		case s[i] == '/':
			i++
			if !isTag(s, i, tag) {
				break
			}
			if !nested {
				return i - len("</"), true
			}
			nested = false
			i += len("script>") // or with another byte that ends a name
		case nested: // a script within a script within a comment is text
		case kinds[s[i]]&letter == 0:
			return i, false
		case isTag(s, i, tag):
			nested = true
			i += len("script>")
		}
		dashes = 0
	}
	return len(s), true
}
