package header

import (
	"errors"
	"fmt"
	"time"

	"github.com/dunglas/httpsfv"
)

// maxInteger is the largest Integer of a structured field, RFC 9651 section 3.3.1.
const maxInteger = 999_999_999_999_999

// item is one member of a list of Strings with parameters, or with an empty name a
// dictionary. Parameters that are not known are ignored.
type item struct {
	name string
	get  func(key string) (value any, found bool)
}

// parseItems reads a list of Strings with parameters. Lines of the same header are one list.
func parseItems(lines []string) ([]item, bool) {
	if len(lines) == 0 {
		return nil, false
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, false
	}
	items := make([]item, len(list))
	for i, m := range list {
		it, _ := m.(httpsfv.Item)
		name, ok := it.Value.(string)
		if !ok {
			return nil, false
		}
		items[i] = item{name, it.Params.Get}
	}
	return items, len(items) > 0
}

// parseDictionary reads a dictionary without the parameters of its members.
func parseDictionary(lines []string) (it item, ok bool) {
	d, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil || len(d.Names()) == 0 {
		return item{}, false
	}
	return item{get: func(key string) (any, bool) {
		m, found := d.Get(key)
		it, _ := m.(httpsfv.Item)
		return it.Value, found
	}}, true
}

// integer stores the parameter key, which must be a non-negative Integer.
func (it item) integer(key string, to *int64, required bool) bool {
	v, found := it.get(key)
	if !found {
		return !required
	}
	n, ok := v.(int64)
	*to = n
	return ok && n >= 0
}

// seconds stores an Integer as that many seconds, as far as a Duration holds them.
func (it item) seconds(key string, to *time.Duration) bool {
	var n int64
	ok := it.integer(key, &n, false)
	*to = time.Duration(min(n, int64(maxDuration/time.Second))) * time.Second
	return ok
}

// text stores a String; a Token is taken too, since both are in use for units.
func (it item) text(key string, to *string) bool {
	v, found := it.get(key)
	switch v := v.(type) {
	case string:
		*to = v
	case httpsfv.Token:
		*to = string(v)
	default:
		return !found
	}
	return true
}

// bytes stores a Byte Sequence, never nil if there is one.
func (it item) bytes(key string, to *[]byte) bool {
	v, found := it.get(key)
	b, ok := v.([]byte)
	*to = b
	return ok || !found
}

// itemWriter builds a list. Errors are told at the end.
type itemWriter struct {
	list httpsfv.List
	last httpsfv.Item
	errs []error
}

// name begins a member.
func (w *itemWriter) name(s string) {
	w.last = httpsfv.NewItem(s)
	w.list = append(w.list, w.last)
}

// integer writes a parameter; what is too large for an Integer is the largest.
func (w *itemWriter) integer(key string, n int64) {
	if n < 0 {
		w.errs = append(w.errs, fmt.Errorf("%s = %d: want 0 or more", key, n))
	}
	w.last.Params.Add(key, min(n, maxInteger))
}

// bytes writes a Byte Sequence, unless b is nil.
func (w *itemWriter) bytes(key string, b []byte) {
	if b != nil {
		w.last.Params.Add(key, b)
	}
}

func (w *itemWriter) result() (string, error) {
	if len(w.list) == 0 {
		return "", errors.New("no members: leave the header out")
	}
	text, err := httpsfv.Marshal(w.list)
	if err != nil {
		err = fmt.Errorf("names and units are printable ASCII: %w", err)
	}
	if err = errors.Join(append(w.errs, err)...); err != nil {
		return "", err
	}
	return text, nil
}
