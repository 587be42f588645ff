package binder

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/document/spelling"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	// Path is the key as it was written, "Resilience.Retry.Backoff.BaseMs". Empty: the
	// document as a whole.
	Path string
	// Line is the line of the document, from 1. Zero: not known.
	Line int
	// Text says what is wrong and what to write instead.
	Text string
}

// Error is the path, the text, and the line in brackets.
func (p Problem) Error() string {
	s := p.Text
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	if p.Line > 0 {
		s += fmt.Sprintf(" [line %d]", p.Line)
	}
	return s
}

// Problems are everything that is wrong with a document, in the order of its lines.
type Problems []Problem

// Error has one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the problems to [errors.Is] and [errors.As].
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// sort makes the same mistakes read the same, whatever found them first.
func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
}

// quoteMax is how much of a wrong value a message repeats: enough to recognise it.
const quoteMax = 60

// quote shows what was written. Numbers stand as they are, so that messages read easily.
func quote(s string) string {
	if len(s) > quoteMax {
		return strconv.Quote(s[:quoteMax]) + "..."
	}
	if _, ok := real(s); ok {
		return s
	}
	return strconv.Quote(s)
}

// name keeps a key that is no name from garbling the path it stands in.
func name(key string) string {
	if strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || key == "" || len(key) > quoteMax {
		return quote(key)
	}
	return key
}

// plain is a word without what spellings differ in.
func plain(s string) string {
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(s, "-", ""), "_", ""))
}

// snake is a key as YAML writes it: MaxDelayMs is max_delay_ms.
func snake(key string) string {
	var b strings.Builder
	for i, r := range key {
		if r >= 'A' && r <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// nearest is the key that differs from s in the fewest letters, if they are few: up to a
// third of them. Beyond that a guess misleads.
func nearest(s string, keys []string) string {
	if len(s) > quoteMax {
		return "" // no key is nearly as long, and comparing costs the product of the lengths
	}
	best, limit := "", max(2, (len(s)+1)/3)+1
	for _, key := range keys {
		if d := spelling.Distance(plain(s), plain(key)); d < limit {
			best, limit = key, d
		}
	}
	return best
}
