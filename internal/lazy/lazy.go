// Package lazy compiles regular expressions when they are first used, as most processes use few of those that the program has.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp is [regexp.MustCompile] at the first call of what it returns, which may be called by several goroutines.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
