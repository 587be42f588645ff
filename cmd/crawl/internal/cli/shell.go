package cli

import (
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
)

// plainWord matches a word that needs no quotes in a shell.
var plainWord = lazy.Regexp("^[a-zA-Z0-9/._+,:@%=][a-zA-Z0-9/._+,:@%=-]*$")

// ShellWord returns s as one word of a shell command, in quotes if it needs them.
func ShellWord(s string) string {
	if plainWord().MatchString(s) {
		return s
	}
	if strings.HasPrefix(s, "-") {
		s = "./" + s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
