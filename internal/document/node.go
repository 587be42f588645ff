// Package document reads YAML and JSON into one kind of tree, in which every part has its
// line, and helps to say what is wrong with it.
//
// A scalar is kept as it was written: the setting that it is for decides what the text means, not the syntax. Keys
// stay in their order, equal ones included, so that a reader can report them ([Node.Unique]). YAML aliases and tags
// are refused and nesting is bounded, so that a small document cannot unfold into a large tree.
//
// [ParseBool], [ParseInt] and [ParseFloat] read values with errors that say what to write instead, and
// package spelling guesses which name was meant. All is plain values and pure functions.
package document

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Node is one value of a document. The zero Node is null.
type Node struct {
	Kind  Kind
	Line  int     // from 1; zero: not known
	Text  string  // of a scalar: the text without quotes, the number or switch as written
	Keys  []Entry // of a map, in order, equal ones included
	Items []Node  // of a list
}

// Entry is one key of a map and its value.
type Entry struct {
	Key   string
	Line  int // of the key
	Value Node
}

// Kind is what a Node is. The zero Kind is [Null].
type Kind uint8

// The kinds of nodes. YAML has [Scalar] for all that is not quoted; JSON has the other three.
const (
	Null   Kind = iota // nothing written, or null
	Scalar             // a single value of which the format does not say the type
	String             // a text
	Number             // a number
	Bool               // true or false
	Map                // keys and values
	List               // values
)

func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a text", "a number", "true or false", "a group of settings", "a list"}[k]
}

// Single reports whether the node is a single value, of any type.
func (n Node) Single() bool { return n.Kind >= Scalar && n.Kind <= Bool }

// Unique is the first entry of each key; repeated is called for every later one, with the first.
func (n Node) Unique(repeated func(first, again Entry)) []Entry {
	first := make(map[string]Entry, len(n.Keys))
	keys := make([]Entry, 0, len(n.Keys))
	for _, e := range n.Keys {
		if f, ok := first[e.Key]; ok {
			repeated(f, e)
			continue
		}
		first[e.Key] = e
		keys = append(keys, e)
	}
	return keys
}

// Join puts a key below a path, which is "" at the top.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Item is the path of an item of a list, counted from 0 as in most query languages.
func Item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Snake is a key of a JSON document as YAML has it: MaxDelayMs is max_delay_ms.
func Snake(key string) string {
	var b strings.Builder
	for i, r := range key {
		if r >= 'A' && r <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// QuoteMax is how much of a wrong value a message repeats: enough to recognise it.
const QuoteMax = 60

// Quote shows a wrong value. Numbers stand as they are, so that messages read easily.
func Quote(s string) string {
	if len(s) > QuoteMax {
		return strconv.Quote(s[:QuoteMax]) + "..."
	}
	if strings.ContainsAny(s, "0123456789") && strings.Trim(s, "0123456789.+-eE_") == "" {
		return s
	}
	return strconv.Quote(s)
}

// QuoteKey keeps a key that is no name from garbling the path it stands in.
func QuoteKey(key string) string {
	if key == "" || len(key) > QuoteMax || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return Quote(key)
	}
	return key
}

// Clip shortens a name that goes into a message.
func Clip(s string) string {
	if len(s) > QuoteMax {
		return s[:QuoteMax] + "..."
	}
	return s
}

// SyntaxError is a document that is not YAML or JSON, or has what no document needs.
type SyntaxError struct {
	Line int    // zero: not known
	Text string // the predicate of a sentence: "is not JSON: …"
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return "the document " + e.Text
	}
	return fmt.Sprintf("the document %s [line %d]", e.Text, e.Line)
}

// The functions below read a value as it is written. want finishes "give …": what a right
// value looks like. No error says where the value is; the caller knows.

// ParseBool also takes what people write into files and environment variables.
func ParseBool(text, want string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither; give %s", Quote(text), want)
}

// ParseInt reads decimal only, because 010 would be eight otherwise. Underscores may stand between digits.
func ParseInt(text, want string) (int64, error) {
	n, err := strconv.ParseInt(Ungroup(text), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is out of range; give %s", Quote(text), want)
	case err != nil:
		return 0, fmt.Errorf("%s is not a whole number; give %s", Quote(text), want)
	}
	return n, nil
}

// ParseFloat refuses NaN, the infinities and hexadecimal: the first two pass every comparison or none.
func ParseFloat(text, want string) (float64, error) {
	x, err := strconv.ParseFloat(Ungroup(text), 64)
	switch {
	case errors.Is(err, strconv.ErrRange), math.IsInf(x, 0):
		return 0, fmt.Errorf("%s is out of range; give %s", Quote(text), want)
	case err != nil, math.IsNaN(x), strings.ContainsAny(text, "xX"):
		return 0, fmt.Errorf("%s is not a number; give %s", Quote(text), want)
	}
	return x + 0, nil // -0 becomes 0, which prints without a sign
}

// Ungroup drops underscores that stand between two digits, as in 10_000_000.
func Ungroup(s string) string {
	if !strings.Contains(s, "_") {
		return s
	}
	digit := func(i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	var b strings.Builder
	for i := range len(s) {
		if s[i] == '_' && digit(i-1) && digit(i+1) {
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Problems are what is wrong with a document, each an error of its own.
type Problems[P error] []P

func (ps Problems[P]) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems[P]) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}
