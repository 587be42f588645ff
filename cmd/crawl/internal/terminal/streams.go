package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Streams is what a command may touch of the process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string
}

// LookupEnv is the last value of a variable, as for a process.
func LookupEnv(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// Say writes to standard error, of whose failure there is nobody to tell.
func Say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// WriteJSON writes one document, indented like the other verbs'.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
