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

// field is one row of the table: all there is to know about a setting except its Go type. Values are written as in a
// file, so that the same parser reads defaults, bounds and input.
type field struct {
	path string // path in the tree, such as "ratelimit.max_rps"; for hosts, the path within the rule
	kind kind
	unit string // for int and number, such as "pages"

	def      string   // "" means the empty value of text and list
	min, max string   // both inclusive; "" for a kind without an order
	zero     string   // what 0 means if it is allowed besides min..max; "" if it is not
	enum     []string // the words of a choice, or of a list of words
	most     int      // most items of a list; 0 means no bound

	flag, short string        // "" means that the setting has no flag, only file, environment and --set
	also        []string      // other common names of the flag, hidden in help
	arg         string        // name of its value in help; "" means that the kind names it
	switches    []valueSwitch // flags that each stand for one value
	words       []wordFlag    // for a list: flags whose items begin with a word
	was         string        // former flag, about which an error says what to write instead
	unless      string        // for a bool that is true by default: what --no-FLAG does
	doc         string        // one line: what the setting is, and what zero or empty means
	example     string        // "" means that the default is example enough

	agreed agreement // whether the processes of a fleet must agree on it
	live   bool      // may change while a crawl runs, see [Update]
	kept   string    // why it cannot change when a crawl is resumed; "" means that it can
	own    bool      // belongs to each run: a resumed crawl begins with the default

	check    func(string) error  // checks beyond range and words; also for each item of a list
	redact   func(string) string // how an item is shown; nil means as it is
	noStruct bool                // a second spelling of another row, see ratelimit.enabled
}

// agreement says how far the processes of a fleet must agree on a setting.
type agreement uint8

const (
	never  agreement = iota // each process has its own, which an operator can change by restarting one after the other
	ifSet                   // a budget of all processes together, once it is set
	always                  // the content of the frontier depends on it
)

// kind is how a value is written, and so how it is parsed, compared and described.
type kind uint8

const (
	kindText     kind = iota
	kindBool          // true or false
	kindInt           // a whole number
	kindRate          // requests per second
	kindNumber        // any other real number
	kindDuration      // see ParseDuration
	kindSize          // bytes, with KiB, MB and so on
	kindChoice        // one of field.enum
	kindList          // a list of texts
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

// namesFile reports whether the values are names of files or directories, which a state keeps relative to its
// directory.
func (f *field) namesFile() bool { return f.arg == "file" || f.arg == "dir" }

// want completes "give …": it describes a correct value.
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

// fields is the table of all settings but the rules for hosts, in the order in which the configuration is printed. All
// callers share the table, and must not change it.
var fields = sync.OnceValue(func() []field {
	return slices.Concat(crawlFields, trapFields, sitemapFields, rateFields, fetchFields, accessFields, renderFields, extractFields, outFields, warcFields, fleetFields, traceFields)
})

func find(rows []field, path string) *field {
	return firstRow(rows, func(f *field) bool { return f.path == path })
}

func firstRow(rows []field, is func(*field) bool) *field {
	for i := range rows {
		if is(&rows[i]) {
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

// The table names settings by path, and the structs hold them; only this file converts between the two. A path that
// leads nowhere is a mistake in the table, and panics.

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

// byType caches a map[string]int for each type of struct in the tree. Starting the program looks up a thousand paths.
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

// set stores a parsed value. It reports false if the value does not fit into the field, which happens only where int
// has 32 bits.
func set(root any, path string, value any) bool {
	v := at(root, path)
	if n, ok := value.(int64); ok && v.OverflowInt(n) {
		return false
	}
	v.Set(reflect.ValueOf(value).Convert(v.Type()))
	return true
}

// Default returns the default configuration. It passes [Config.Validate], and each call returns a tree of its own.
func Default() Config {
	var c Config
	for _, f := range fields() {
		if !f.noStruct && f.kind != kindList {
			set(&c, f.path, f.bound(f.def))
		}
	}
	return c
}
