package testsite

import (
	"fmt"

	"github.com/treadlight/crawl/internal/document/spelling"
)

// meant is a hint for somebody who has misspelled one of the names, or "".
func meant(word string, names []string) string {
	if name := spelling.Nearest(word, names); name != "" {
		return fmt.Sprintf(" (did you mean %s?)", name)
	}
	return ""
}
