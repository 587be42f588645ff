package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/document"
)

// Origin says where a value was written. The zero Origin means that it is unknown: a program has set the value.
type Origin struct {
	Source string // default, follows, state, file, env or flag
	// Name is the directory of the state, the file, the variable, the flag with its dashes, or the path that the value
	// follows. Empty for a default.
	Name string
	Line int // line in the file, from 1; zero means unknown, or no file
}

// The sources, in the order of the layers.
const (
	fromDefault = "default"
	fromFollows = "follows"
	fromState   = "state"
	fromFile    = "file"
	fromEnv     = "env"
	fromFlag    = "flag"
)

func (o Origin) rank() int {
	return slices.Index([]string{"", fromDefault, fromFollows, fromState, fromFile, fromEnv, fromFlag}, o.Source)
}

// written reports whether a user wrote the value, so that it must not be adjusted. A value that a program set counts as
// written, as it may not be a default.
func (o Origin) written() bool { return o.Source != fromDefault && o.Source != fromFollows }

// String returns the origin as it is printed: "file crawl.yaml:12", "flag --rate".
func (o Origin) String() string {
	s := o.Source
	if o.Name != "" {
		s += " " + o.Name
	}
	if o.Line > 0 {
		s += ":" + strconv.Itoa(o.Line)
	}
	if printable(s) != nil { // a file name may contain anything, but a comment is one line
		return strconv.QuoteToASCII(s)
	}
	return s
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Path   string // path of the setting, such as "hosts[2].max_rps"; empty means the file as a whole
	Origin Origin // where the value was written
	// Text says what is wrong and what to write instead.
	Text string

	cause error // error about a file that could not be read
}

func (p Problem) Error() string {
	s := p.Text
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	if p.Origin.written() && p.Origin.Source != "" {
		s += " [" + p.Origin.String() + "]"
	}
	return s
}

// Unwrap returns the error of the file system, if that is the problem, so that a caller can distinguish a missing file
// from a wrong one.
func (p Problem) Unwrap() error { return p.cause }

// Problems is everything that is wrong, sorted by path.
type Problems = document.Problems[Problem]

// sortProblems sorts by path, and rules and items of lists by line, so that the same mistakes always give the same
// text.
func sortProblems(ps Problems) {
	list := func(path string) string {
		before, _, _ := strings.Cut(path, "[")
		return before
	}
	slices.SortFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(list(a.Path), list(b.Path)), cmp.Compare(a.Origin.Line, b.Origin.Line),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Text, b.Text))
	})
}
