package sink

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize/english"

	"github.com/treadlight/crawl/record"
)

var _ record.ItemSink = (*Items)(nil)

// ItemsConfig says which items a file is for.
type ItemsConfig struct {
	// Kinds are the kinds of items that the file takes.
	Kinds []string
	// Columns are the columns of a table: names of fields, and "page" for the URL of the page. They are those of Config.
	Columns []string
	// Fields lists by kind the names of fields whose absence the summary reports; items may have others too.
	Fields map[string][]string
}

// Items is a file of items, one [record.Extracted] per line. It ignores records. Otherwise it is a [Writer].
type Items struct {
	*Writer

	kinds   []string
	fields  map[string][]string
	table   table
	columns []string // nil means lines of JSON

	mu     sync.Mutex // guards counts, which other goroutines read
	counts map[string]*itemCount
}

type itemCount struct {
	items int64
	has   map[string]int64
	order []string
}

// NewItems returns the items of a file that was opened for them.
func NewItems(w *Writer, cfg ItemsConfig) *Items {
	return &Items{
		Writer: w, kinds: cfg.Kinds, fields: cfg.Fields, counts: map[string]*itemCount{},
		table: table{separator: w.format.Spec().Separator}, columns: cfg.Columns,
	}
}

// Write ignores the record.
func (*Items) Write(*record.Record) error { return nil }

// Takes implements [record.ItemSink].
func (s *Items) Takes(value any) bool {
	e, ok := value.(*record.Extracted)
	return ok && slices.Contains(s.kinds, e.Kind)
}

// WriteItem implements [record.ItemSink].
func (s *Items) WriteItem(_ *record.Record, item record.Item) error {
	e, ok := item.Value.(*record.Extracted)
	if !ok {
		return errors.New("an item of another type")
	}
	s.count(e)
	if s.columns == nil {
		return s.WriteLine(append(slices.Clip(item.JSON), '\n'))
	}
	var line []byte
	for i, name := range s.columns {
		if i > 0 {
			line = append(line, s.table.separator)
		}
		at := slices.IndexFunc(e.Fields, func(v record.Values) bool { return v.Name == name })
		switch {
		case at >= 0:
			line = s.table.appendField(line, &e.Fields[at])
		case name == pageColumn:
			line = s.table.appendCell(line, e.Page)
		}
	}
	return s.WriteLine(append(line, '\n'))
}

// pageColumn is the column for the URL of the page, unless a field has that name.
const pageColumn = "page"

func (s *Items) count(e *record.Extracted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[e.Kind]
	if c == nil {
		c = &itemCount{has: map[string]int64{}, order: slices.Clone(s.fields[e.Kind])}
		s.counts[e.Kind] = c
	}
	c.items++
	for i := range e.Fields {
		if name := e.Fields[i].Name; len(c.has) < maxCounted || c.has[name] > 0 {
			if c.has[name]++; !slices.Contains(c.order, name) {
				c.order = append(c.order, name)
			}
		}
	}
}

// maxCounted bounds the number of fields that are counted per kind.
const maxCounted = 1000

// unnamed is the kind of items whose rules give them no name.
const unnamed = "item"

// Summary returns a text per kind about what this process has written, such as "120 of product, 3 without price", or "45
// items" if they have no name. It is safe for concurrent use.
func (s *Items) Summary() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(s.counts)) {
		c := s.counts[kind]
		var lacking []string
		for _, name := range c.order {
			if n := c.items - c.has[name]; n > 0 {
				lacking = append(lacking, fmt.Sprintf("%d without %s", n, name))
			}
		}
		text := fmt.Sprintf("%d of %s", c.items, kind)
		if kind == unnamed {
			text = english.Plural(int(c.items), unnamed, "")
		}
		if len(lacking) > 0 {
			text += ", " + strings.Join(lacking[:min(len(lacking), 5)], ", ")
		}
		all = append(all, text)
	}
	return all
}

// Lines is a file of a program's own items, one line of JSON each. It ignores records. Otherwise it is a [Writer].
type Lines struct {
	*Writer

	Of func(item any) bool // whether an item is for the file
}

// Write ignores the record.
func (*Lines) Write(*record.Record) error { return nil }

// Takes implements [record.ItemSink].
func (s *Lines) Takes(item any) bool { return s.Of(item) }

// WriteItem implements [record.ItemSink].
func (s *Lines) WriteItem(_ *record.Record, item record.Item) error {
	return s.WriteLine(append(slices.Clip(item.JSON), '\n'))
}
