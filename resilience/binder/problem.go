package binder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	// Path is the key as it was written, "Resilience.Retry.Backoff.BaseMs". Empty: the
	// document as a whole.
	Path string
	Line int    // the line of the document, from 1. Zero: not known
	Text string // says what is wrong and what to write instead
}

func problem(path string, line int, format string, args ...any) Problems {
	return Problems{{Path: path, Line: line, Text: fmt.Sprintf(format, args...)}}
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
