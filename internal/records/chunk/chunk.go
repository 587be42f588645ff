// Package chunk cuts a Markdown file into chunks for search and for language models.
//
// A chunk is a range of bytes of the file. It says where it begins and ends, which headings it stands under, and about
// how many tokens it has. Chunks are adjacent: together they are exactly what follows the head of the file, byte for
// byte. Cuts are made where they do least harm: between sections, between blocks, between rows of a table or lines of
// code, between sentences, between words. A chunk that continues a table repeats the table's header at its beginning,
// and Repeats is the length of that. Small neighbors become one chunk if they stand under the same heading or one of
// them stands below the other.
package chunk

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// DefaultTokens is the default for the most tokens of a chunk: what common embedding models accept.
const DefaultTokens = 512

// MinTokens is the smallest bound of a chunk's tokens that can be set.
const MinTokens = 16

// Chunk is a part of a file. Start and End count bytes from the beginning of the file, including its head.
type Chunk struct {
	URL      string   `json:"url"`
	File     string   `json:"file,omitempty"`
	Title    string   `json:"title,omitempty"`
	Headings []string `json:"headings,omitempty"`
	Start    int      `json:"start"`
	End      int      `json:"end"`
	Tokens   int      `json:"tokens"`
	Repeats  int      `json:"repeats,omitempty"`
	Text     string   `json:"text"`
}

// Tokens estimates the number of tokens of a text: one for four ASCII characters, and one for each other character.
func Tokens(text string) int {
	ascii, other := 0, 0
	for i := range len(text) {
		switch b := text[i]; {
		case b < utf8.RuneSelf:
			ascii++
		case utf8.RuneStart(b):
			other++
		}
	}
	return (ascii+3)/4 + other
}

// Split cuts a file into chunks of at most that many tokens. A repeated table header counts as well; it is left out if
// it would take more than a quarter of the tokens.
func Split(file, url string, tokens int) []Chunk {
	tokens = max(tokens, MinTokens)
	name, titled := Name(url), title(file)
	var chunks []Chunk
	var last *piece
	flush := func() {
		if last == nil {
			return
		}
		text := file[last.start:last.end]
		chunks = append(chunks, Chunk{
			URL: url, File: name, Title: titled, Headings: last.path, Start: last.start, End: last.end,
			Repeats: len(last.repeats), Text: last.repeats + text, Tokens: Tokens(last.repeats + text),
		})
		last = nil
	}
	for _, p := range pieces(file, Body(file), tokens) {
		if last != nil && p.repeats == "" && last.tokens+p.tokens <= tokens {
			if path, ok := join(last.path, p.path); ok {
				last.end, last.tokens, last.path = p.end, last.tokens+p.tokens, path
				continue
			}
		}
		flush()
		last = &p
	}
	flush()
	return chunks
}

// join returns the path of headings of two neighbors in one chunk, and whether they may be in one: if they stand under
// the same headings, if one stands below the other, or if their last headings are siblings.
func join(a, b []string) ([]string, bool) {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n:n], n >= max(len(a), len(b))-1 && (n > 0 || len(a)+len(b) == 0)
}

// Body returns where the text of a file begins: behind its YAML head, if there is one.
func Body(file string) int {
	if !strings.HasPrefix(file, "---\n") {
		return 0
	}
	i := strings.Index(file[4:], "\n---\n")
	if i < 0 {
		return 0
	}
	at := 4 + i + len("\n---\n")
	for at < len(file) && file[at] == '\n' {
		at++
	}
	return at
}

func title(file string) string {
	line, ok := strings.CutPrefix(file, "---\ntitle: ")
	if !ok {
		return ""
	}
	line, _, _ = strings.Cut(line, "\n")
	var s string
	_ = json.Unmarshal([]byte(line), &s) // empty if another program wrote the head
	return s
}

// AppendLines appends the chunks of a file as JSON lines.
func AppendLines(dst []byte, chunks []Chunk) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i := range chunks {
		_ = e.Encode(&chunks[i]) // cannot fail for strings and numbers
	}
	return append(dst, b.Bytes()...)
}
