package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// field is one row of the table: all there is to know about a setting but its Go type.
// Values are written as in a file, so one parser reads defaults, bounds and input.
type field struct {
	path string // in the tree, "ratelimit.max_rps"; for hosts, within the rule
	kind kind
	unit string // of int and number: "pages"

	def      string   // "" is the empty value of text and list
	min, max string   // both inclusive; "" where the kind has no order
	zero     string   // what 0 means when it is allowed beside min..max; "" = it is not
	enum     []string // the words of a choice, or of a list of words
	most     int      // items of a list; 0 = as many as one likes

	flag, short string        // "" = set by file, environment and --set only
	also        []string      // other customary names of the flag, not shown in help
	arg         string        // what its value is called in help; "" = by the kind
	switches    []valueSwitch // flags that stand for one value
	words       []wordFlag    // of a list: flags whose items begin with a word
	was         string        // a flag that there was, of which an error says what to write
	unless      string        // for a bool that is true by default: what --no-FLAG does
	doc         string        // one line: what it is, and what zero or empty means
	example     string        // "" = the default is example enough

	agreed agreement // whether the processes of a fleet have to agree on it
	live   bool      // it may change while a crawl runs, see [Update]
	kept   string    // why it cannot change when a crawl is resumed; "" = it can
	own    bool      // it is each run's own: a resumed crawl begins with the default

	check    func(string) error  // beyond range and words; also for each item of a list
	redact   func(string) string // how an item is shown; nil = as it is
	noStruct bool                // a second spelling of another row, see ratelimit.enabled
}

// agreement is how far the processes of a fleet have to agree on a setting.
type agreement uint8

const (
	never  agreement = iota // each its own, as an operator changes who restarts one after another
	ifSet                   // a budget of all together, once it is set
	always                  // what is in the frontier depends on it
)

// kind is how a value is written, and so how it is parsed, compared and named.
type kind uint8

const (
	kindText     kind = iota
	kindBool          // true or false
	kindInt           // whole
	kindRate          // requests per second
	kindNumber        // any other real number
	kindDuration      // as time.ParseDuration reads it
	kindSize          // bytes, with KiB, MB and their like
	kindChoice        // one of field.enum
	kindList          // of text
)

func (k kind) String() string {
	return [...]string{
		"text", "bool", "int", "rate", "number", "duration", "size", "choice", "list",
	}[k]
}

const envPrefix = "CRAWL_"

func (f *field) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(f.path, ".", "_"))
}

// namesFile reports whether values are names of files or directories, which a state keeps relative to itself.
func (f *field) namesFile() bool { return f.arg == "file" || f.arg == "dir" }

// want finishes "give …": what a right value looks like.
func (f *field) want() string {
	s := f.noun()
	if f.min != "" {
		s += " between " + f.min + " and " + f.max
	}
	if f.zero != "" {
		s += ", or 0 for " + f.zero
	}
	return s
}

func (f *field) noun() string {
	switch f.kind {
	case kindBool:
		return "true or false"
	case kindInt:
		return "a whole number of " + f.unit
	case kindRate:
		return "a rate in requests per second"
	case kindNumber:
		return "a " + f.unit
	case kindDuration:
		return "a duration with its unit, such as 1m30s,"
	case kindSize:
		return "a size such as 10MiB"
	case kindChoice:
		return "one of " + strings.Join(f.enum, ", ")
	case kindList:
		if len(f.enum) > 0 {
			return "some of " + strings.Join(f.enum, ", ")
		}
		return "a list"
	}
	return "a text"
}

// fields is the table of everything but the rules for hosts, in the order in which
// the configuration is printed. It is one table for all who ask, and none may change it.
var fields = sync.OnceValue(func() []field {
	return slices.Concat(crawlFields, trapFields, sitemapFields, rateFields, fetchFields, accessFields, renderFields, extractFields, outFields, warcFields, fleetFields, traceFields)
})

func find(rows []field, path string) *field {
	for i := range rows {
		if rows[i].path == path {
			return &rows[i]
		}
	}
	return nil
}

func section(path string) string {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)]
}

func leaf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// The table names settings by path and the structs hold them; this file is the only one that walks from
// one to the other. A path that leads nowhere is a mistake in the table and panics.

// at returns the settable struct field that a path names below root, a pointer to [Config] or [Host].
func at(root any, path string) reflect.Value {
	v := reflect.ValueOf(root).Elem()
	for name := range strings.SplitSeq(path, ".") {
		i, ok := places(v.Type())[strings.ReplaceAll(name, "_", "")]
		if !ok {
			panic(fmt.Sprintf("config: no field %q for %q", name, path))
		}
		v = v.Field(i)
	}
	return v
}

// byType is a map[string]int for each type of struct in the tree. To start takes a thousand paths.
var byType sync.Map

func places(of reflect.Type) map[string]int {
	if known, ok := byType.Load(of); ok {
		return known.(map[string]int)
	}
	all := make(map[string]int, of.NumField())
	for i := range of.NumField() {
		all[cmp.Or(of.Field(i).Tag.Get("yaml"), strings.ToLower(of.Field(i).Name))] = i
	}
	byType.Store(of, all)
	return all
}

func get(root any, path string) any { return widened(at(root, path)) }

func widened(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Duration, bool, float64, string, []string:
		return x
	}
	return v.Int()
}

// set stores a parsed value. It reports false when the value does not fit into the
// field, which only a computer with 32-bit integers sees.
func set(root any, path string, value any) bool {
	v := at(root, path)
	if n, ok := value.(int64); ok && v.OverflowInt(n) {
		return false
	}
	v.Set(reflect.ValueOf(value).Convert(v.Type()))
	return true
}

// Default is the configuration of a crawl whose user said nothing. It passes
// [Config.Validate], and each call returns a tree of its own.
func Default() Config {
	var c Config
	for _, f := range fields() {
		if !f.noStruct && f.kind != kindList {
			set(&c, f.path, f.bound(f.def))
		}
	}
	return c
}
