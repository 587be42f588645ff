// Package enum gives types that are small numbers their names in text and JSON.
package enum

import "fmt"

// Name is the name of a value, or kind and its number if it has none.
func Name[T ~uint8](names []string, kind string, value T) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}

// Parse sets to to the value that has the name.
func Parse[T ~uint8](names []string, kind string, text []byte, to *T) error {
	for i, name := range names {
		if name == string(text) {
			*to = T(i)
			return nil
		}
	}
	return fmt.Errorf("unknown %s %q", kind, text)
}
