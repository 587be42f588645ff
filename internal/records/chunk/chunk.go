// Package chunk cuts a file of Markdown into chunks for search and for language models.
//
// A chunk is a run of bytes of the file: it says where it begins and ends, which headings it stands under, and about how
// many tokens it has. Chunks stand one behind the other: those of a file, put together, are what comes behind its head,
// byte for byte. Cuts are made where they hurt least: between sections, between blocks, between rows of a table or lines
// of code, between sentences, between words. A chunk that goes on with a table has the table's header once more at its
// beginning, and Repeats says how long that is. Small neighbours, which are peers or one below the other, become one chunk.
package chunk

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// DefaultTokens is how many tokens a chunk has at most unless somebody says otherwise: what common models for embeddings take.
const DefaultTokens = 512

// MinTokens is the least that chunks can be asked to have.
const MinTokens = 16

// Chunk is a part of a file. Start and End count bytes from the beginning of the file, its head included.
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

// Tokens is about how many tokens a text has: one for four ASCII characters, and one for each other.
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

// Split cuts a file into chunks of at most so many tokens. A repeated header comes on top if it has a quarter of that at
// most, and is left out otherwise.
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

// join is the path of two neighbours in one chunk, and whether they may be in one: they stand under the same headings, one
// stands below the other, or both are peers.
func join(a, b []string) ([]string, bool) {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n:n], n >= max(len(a), len(b))-1 && (n > 0 || len(a)+len(b) == 0)
}

// Body is where the text of a file begins, behind the head in YAML if there is one.
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
	_ = json.Unmarshal([]byte(line), &s) // empty if somebody else wrote it
	return s
}

// AppendLines appends the chunks of a file as JSON lines.
func AppendLines(dst []byte, chunks []Chunk) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i := range chunks {
		_ = e.Encode(&chunks[i]) // texts and numbers
	}
	return append(dst, b.Bytes()...)
}
