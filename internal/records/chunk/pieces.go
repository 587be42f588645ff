package chunk

import (
	"html"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/lazy"
)

// piece is a range of bytes that is not cut further.
type piece struct {
	start, end, tokens int
	path               []string
	repeats            string
	heading            bool // the piece is a heading and nothing else
}

// cutter cuts a file block by block.
type cutter struct {
	file   string
	tokens int // the most tokens of a piece
	path   []string
	levels []int // levels of the headings of path
	pieces []piece
}

func pieces(file string, at, tokens int) []piece {
	c := cutter{file: file, tokens: tokens}
	for at < len(file) {
		end := blockEnd(file, at)
		c.block(at, end)
		at = end
	}
	return c.pieces
}

// blockEnd returns where the block at a position ends, including the blank lines behind it. A heading is a block of its
// own, and so is code between fences.
func blockEnd(file string, at int) int {
	first := true
	fence := ""
	for at < len(file) {
		line, next := lineAt(file, at)
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]) == "" {
				fence = ""
			}
		case trimmed == "":
			return skipBlank(file, at)
		case !first && level(line) > 0:
			return at
		case strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, trimmed[:1]))]
		case first && level(line) > 0:
			return skipBlank(file, next)
		}
		at, first = next, false
	}
	return at
}

func lineAt(file string, at int) (line string, next int) {
	if i := strings.IndexByte(file[at:], '\n'); i >= 0 {
		return file[at : at+i], at + i + 1
	}
	return file[at:], len(file)
}

func skipBlank(file string, at int) int {
	for at < len(file) {
		line, next := lineAt(file, at)
		if strings.TrimSpace(line) != "" {
			break
		}
		at = next
	}
	return at
}

func level(line string) int {
	n := 0
	for n < len(line) && line[n] == '#' {
		n++
	}
	if n == 0 || n > 6 || n < len(line) && line[n] != ' ' {
		return 0
	}
	return n
}

// maxHeading bounds the length of a heading in a path, in bytes.
const maxHeading = 200

var (
	links = lazy.Regexp(`!?\[((?:[^\[\]\\]|\\.)*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?: "[^"]*")?\)`)
	marks = lazy.Regexp("\\\\([[:punct:]])|\\*\\*|`+")
)

// plain returns a heading without links, marks and escapes.
func plain(heading string) string {
	return strings.TrimSpace(html.UnescapeString(marks().ReplaceAllString(links().ReplaceAllString(heading, "$1"), "$1")))
}

func (c *cutter) block(start, end int) {
	line, next := lineAt(c.file, start)
	if n := level(line); n > 0 {
		for len(c.levels) > 0 && c.levels[len(c.levels)-1] >= n {
			c.levels = c.levels[:len(c.levels)-1]
			c.path = c.path[:len(c.path)-1]
		}
		c.levels = append(c.levels, n)
		c.path = append(slices.Clip(c.path), clip(plain(line[n:]), maxHeading))
	}
	if Tokens(c.file[start:end]) <= c.tokens {
		c.add(start, end, "")
		c.pieces[len(c.pieces)-1].heading = level(line) > 0
		return
	}
	header := ""
	if rule, after := lineAt(c.file, next); isTable(line, rule) {
		header = c.file[start:after]
		if 4*Tokens(header) > c.tokens {
			header = ""
		}
	}
	c.lines(start, end, header)
}

func isTable(header, rule string) bool {
	return strings.HasPrefix(header, "|") && strings.HasPrefix(rule, "|") && strings.Trim(rule, "|-: ") == ""
}

// lines cuts a block between its lines, and lines that are too long between sentences or words.
func (c *cutter) lines(start, end int, header string) {
	from, size, repeats := start, 0, ""
	cut := func(at int) {
		if at > from {
			c.add(from, at, repeats)
			from, size, repeats = at, Tokens(header), header
		}
	}
	for at := start; at < end; {
		_, next := lineAt(c.file, at)
		next = min(next, end)
		n := Tokens(c.file[at:next])
		if size+n > c.tokens {
			cut(at)
		}
		if size+n > c.tokens {
			for at < next {
				stop := at + fitting(c.file[at:next], c.tokens-size)
				cut(stop)
				at = stop
			}
			continue
		}
		size += n
		at = next
	}
	cut(end)
}

// fitting returns the length of the longest beginning of text with at most that many tokens, shortened to the end of a
// sentence or word if there is one in its second half. It is at least one character.
func fitting(text string, tokens int) int {
	ascii, other, end := 0, 0, 0
	for i, r := range text {
		if r < utf8.RuneSelf {
			ascii++
		} else {
			other++
		}
		if (ascii+3)/4+other > tokens && i > 0 {
			break
		}
		end = i + utf8.RuneLen(r)
		if r == utf8.RuneError { // an invalid byte, or U+FFFD itself
			_, n := utf8.DecodeRuneInString(text[i:])
			end = i + n
		}
	}
	if end >= len(text) {
		return len(text)
	}
	for _, stop := range []string{". ", "! ", "? ", "。", " "} {
		if i := strings.LastIndex(text[:end], stop); i >= end/2 {
			return i + len(stop)
		}
	}
	return end
}

// add adds a piece. A heading is joined with what stands below it if that fits.
func (c *cutter) add(start, end int, repeats string) {
	p := piece{start: start, end: end, path: c.path, repeats: repeats, tokens: Tokens(repeats) + Tokens(c.file[start:end])}
	if i := len(c.pieces) - 1; i >= 0 && c.pieces[i].heading && c.pieces[i].tokens+p.tokens <= c.tokens {
		p.start, p.tokens = c.pieces[i].start, c.pieces[i].tokens+p.tokens
		c.pieces = c.pieces[:i]
	}
	c.pieces = append(c.pieces, p)
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
