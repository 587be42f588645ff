// Package document reads YAML and JSON into the same kind of tree, in which every part has its line number, and helps
// to say what is wrong with it.
//
// A scalar is kept as it was written: the setting decides what the text means, not the syntax. Keys keep their order,
// including repeated ones, so that a reader can report those ([Node.Unique]). YAML aliases and tags are rejected and
// nesting is bounded, so that a small document cannot expand to a large tree.
//
// [ParseBool], [ParseInt] and [ParseFloat] parse values, with errors that say what to write instead, and package
// spelling guesses which name was meant. Everything is plain values and pure functions.
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
	Text  string  // for a scalar: the text without quotes, or the number or boolean as written
	Keys  []Entry // for a map, in order, including repeated keys
	Items []Node  // for a list
}

// Entry is one key of a map and its value.
type Entry struct {
	Key   string
	Line  int // line of the key
	Value Node
}

// Kind is the kind of a Node. The zero Kind is [Null].
type Kind uint8

// The kinds of nodes. YAML has [Scalar] for all that is not quoted; JSON has the other three.
const (
	Null   Kind = iota // nothing written, or null
	Scalar             // a single value whose type the format does not say
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

// Unique returns the first entry of each key. It calls repeated for every later one, together with the first.
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

// Join appends a key to a path, which is "" for the root.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Item returns the path of an item of a list, counted from 0 as in most query languages.
func Item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Snake converts a key of a JSON document to the form that YAML documents use: MaxDelayMs becomes max_delay_ms.
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

// QuoteMax is how many bytes of a wrong value a message repeats, so that it can be recognized.
const QuoteMax = 60

// Quote formats a wrong value for a message. Numbers have no quotes, so that messages are easy to read.
func Quote(s string) string {
	if len(s) > QuoteMax {
		return strconv.Quote(s[:QuoteMax]) + "..."
	}
	if strings.ContainsAny(s, "0123456789") && strings.Trim(s, "0123456789.+-eE_") == "" {
		return s
	}
	return strconv.Quote(s)
}

// QuoteKey quotes a key that would garble a path; others it returns unchanged.
func QuoteKey(key string) string {
	if key == "" || len(key) > QuoteMax || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return Quote(key)
	}
	return key
}

// Clip shortens a name for a message.
func Clip(s string) string {
	if len(s) > QuoteMax {
		return s[:QuoteMax] + "..."
	}
	return s
}

// SyntaxError is the error about a document that is not valid YAML or JSON, or that uses a rejected feature.
type SyntaxError struct {
	Line int    // zero means unknown
	Text string // the predicate of a sentence, such as "is not JSON: …"
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return "the document " + e.Text
	}
	return fmt.Sprintf("the document %s [line %d]", e.Text, e.Line)
}

// The functions below parse a value as it is written. want completes "give …": it describes a correct value. No error
// says where the value is, which the caller knows.

// ParseBool parses a boolean. It also accepts the spellings that people use in files and environment variables.
func ParseBool(text, want string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither; give %s", Quote(text), want)
}

// ParseInt parses a decimal number only, because 010 would otherwise be eight. Underscores may separate digits.
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

// ParseFloat parses a number. It rejects NaN, infinities and hexadecimal numbers: NaN and infinities pass no comparison
// or every one.
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

// Ungroup removes underscores between two digits, as in 10_000_000.
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

// Problems lists what is wrong with a document, each as an error of its own.
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
