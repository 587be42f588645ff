package extract

import "bytes"

// rawElement is the element of that name if its content is raw text, or "". XHTML and
// foreign elements are no exception here: the extractor knows them and says so.
func rawElement(name []byte) string {
	switch string(name) {
	case "script":
		return "script"
	case "style":
		return "style"
	case "title":
		return "title"
	case "textarea":
		return "textarea"
	case "iframe":
		return "iframe"
	case "noscript":
		return "noscript"
	case "noframes":
		return "noframes"
	case "noembed":
		return "noembed"
	case "xmp":
		return "xmp"
	case "plaintext":
		return "plaintext"
	}
	return ""
}

// rawText reads the content of the element just begun and reports whether it has any.
// Without any, the end tag or the end of the page comes next, and there is no token of
// no text: titles are told by their text alone.
func (s *scanner) rawText() bool {
	from, to := s.at, RawTextEnd(s.body, s.at, s.raw)
	s.say(from, to, to)
	s.verbatim = s.raw != "textarea" && s.raw != "title"
	s.noNUL = true
	s.raw = ""
	return to > from
}

// RawTextEnd is where the end tag of an element stands whose content is raw text and begins
// at i, or the end of s. The name is in lower case.
func RawTextEnd(s []byte, i int, name string) int {
	switch name {
	case "plaintext": // which nothing ends
		return len(s)
	case "script":
		return scriptEnd(s, i)
	}
	return rawEnd(s, i, name)
}

// rawEnd is where the first end tag of an element stands from i, or the end of s.
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

// isTag reports whether a tag's name at i is name, and ends there. Where the page ends
// behind a name, that is no tag, for one could still go on: "</titles".
func isTag(s []byte, i int, name string) bool {
	if i+len(name) >= len(s) {
		return false
	}
	for j := range len(name) {
		if lower(s[i+j]) != name[j] {
			return false
		}
	}
	return kinds[s[i+len(name)]]&endsName != 0
}

// scriptEnd is where the end tag of a script stands whose text begins at i, or the end
// of s. Old pages hide their scripts in comments, and within a comment a script may
// hold a script: §13.2.5.15 to 31. Where a comment meets a "<" that begins no tag, we
// take it to have ended, as x/net/html does; the standard has it go on.
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

// hiddenScript reads a script from within a comment, up to the comment's end or to
// that of the script, and reports whether it was the latter.
//
// The standard has eleven states for this. They come down to two numbers: how many
// dashes stand right before, since two and a ">" end the comment, and whether a script
// was begun within it, whose end tag is then not ours.
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
