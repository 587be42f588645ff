package fields

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// maxProgram is how many instructions a regular expression may have: each byte of a text may
// be looked at as often. Without repetitions it is about the length of the pattern.
const maxProgram = 10_000

// patternSteps is what a regular expression may cost for each byte of a text. It refuses one
// that is too long. What is no expression costs nothing: others report it.
func patternSteps(pattern string) (steps int, err error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, nil //nolint:nilerr // compiling it says so
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, nil //nolint:nilerr // as above
	}
	if len(prog.Inst) > maxProgram {
		return 0, fmt.Errorf("the regular expression %.60q is %d instructions, more than %d; use smaller repetitions", pattern, len(prog.Inst), maxProgram)
	}
	return 1 + len(prog.Inst)/8, nil
}

// literalArgs are the functions of XPath whose arguments but the first must be texts in quotes.
// From a page they could be megabytes each, of which the result is the product, or a pattern
// of any size.
var literalArgs = regexp.MustCompile(`^(matches|replace|string-join|translate)\s*\(`)

// maxGrowth bounds how much longer the calls of replace in one expression may make a text
// together: each may work on what another one has made.
const maxGrowth = 1 << 20

// callSteps looks for those functions in an expression that compiles, and returns what their
// patterns may cost for each byte of a text.
func callSteps(expr string) (steps int, err error) {
	growth := 1
	for i := 0; i < len(expr); i++ {
		if end := quoteEnd(expr, i); end > i {
			i = end
			continue
		}
		if i > 0 && strings.IndexByte("-_.:@/", expr[i-1]) >= 0 || i > 0 && wordByte(expr[i-1]) {
			continue
		}
		call := literalArgs.FindStringSubmatch(expr[i:])
		if call == nil {
			continue
		}
		for n, arg := range arguments(expr[i+len(call[0]):]) {
			if n == 0 {
				continue
			}
			if arg == "" || quoteEnd(arg, 0) != len(arg)-1 {
				return 0, fmt.Errorf("the arguments of %s() behind the first must be texts in quotes, and %q is none", call[1], arg)
			}
			if call[1] == "matches" || call[1] == "replace" && n == 1 {
				n, err := patternSteps(arg[1 : len(arg)-1])
				if err != nil {
					return 0, err
				}
				steps += n
			}
			if call[1] == "replace" && n == 2 { // it may stand between any two bytes
				if growth *= len(arg) - 1; growth > maxGrowth {
					return 0, fmt.Errorf("the calls of replace() could make a text more than %d times as long; use shorter texts, or fewer calls", maxGrowth)
				}
			}
		}
	}
	return steps * growth, nil
}

func wordByte(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c >= 0x80
}

// quoteEnd is where the text in quotes that begins at i ends; i if there is none.
func quoteEnd(s string, i int) int {
	if s[i] != '"' && s[i] != '\'' {
		return i
	}
	if n := strings.IndexByte(s[i+1:], s[i]); n >= 0 {
		return i + 1 + n
	}
	return i
}

// arguments splits what stands behind the bracket of a call.
func arguments(s string) (all []string) {
	from, open := 0, 0
	for i := 0; i < len(s); i++ {
		if end := quoteEnd(s, i); end > i {
			i = end
			continue
		}
		switch c := s[i]; {
		case c == '(' || c == '[':
			open++
		case (c == ')' || c == ']') && open > 0:
			open--
		case c == ')':
			return append(all, strings.TrimSpace(s[from:i]))
		case c == ',' && open == 0:
			all = append(all, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	return all
}
