package config

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/spelling"
)

// Flag describes a command line flag, so that a program can declare all of them in one
// loop and hand back what was given as [FlagValue]s. Values are texts here: [Load]
// parses them, and so reports their mistakes beside those of the other layers.
type Flag struct {
	// Name is without dashes; Shorthand is one letter or empty.
	Name, Shorthand string
	// Path is the setting the flag writes to.
	Path string
	// Type is what a value is called in help: "duration", "int", "rate"…
	Type string
	// Default is the default as it would be written; empty for none.
	Default string
	// Help is one line, with the words of a choice and what zero means.
	Help string
	// Switch flags need no value; without one they are "true".
	Switch bool
	// Repeat flags may be given several times, one item each. Of others the last wins.
	Repeat bool
	// Hidden flags work and are left out of help: other spellings, and the opposite of
	// a switch that is shown.
	Hidden bool
}

// FlagValue is one use of a flag on the command line.
type FlagValue struct {
	Name  string // without dashes
	Value string // "true" for a switch without a value
}

// negation starts the name of the flag that switches another off.
const negation = "no-"

// Flags lists the flags in the order of the settings. A switch that is on by default
// is shown as --no-NAME, and every switch has its opposite. The list is the same for all
// callers, who must not change it.
func Flags() []Flag { return flagList() }

var flagList = sync.OnceValue(func() []Flag {
	var all []Flag
	for _, f := range fields() {
		if f.flag != "" {
			all = append(all, f.flags()...)
		}
	}
	return all
})

// flags lists a row's flag, its other spellings and, for a switch, its opposite. Of a
// switch and its opposite the one that changes the default is shown.
func (f *field) flags() []Flag {
	shown := Flag{
		Name: f.flag, Shorthand: f.short, Path: f.path, Type: f.kind.String(), Default: f.def,
		Help: f.help(), Repeat: f.kind == kindList, Switch: f.kind == kindBool,
	}
	all := []Flag{shown}
	for _, name := range f.also {
		other := shown
		other.Name, other.Shorthand, other.Hidden = name, "", true
		all = append(all, other)
	}
	if f.kind != kindBool {
		return all
	}
	opposite := shown
	opposite.Name, opposite.Shorthand, opposite.Default = negation+f.flag, "", "false"
	opposite.Help = f.unless
	all[0].Hidden, opposite.Hidden = f.unless != "", f.unless == ""
	return append(all, opposite)
}

// help is the row's sentence with the words to choose from.
func (f *field) help() string {
	if f.kind == kindChoice {
		return strings.Join(f.enum, "|") + ": " + f.doc
	}
	return f.doc
}

// loadFlags stores the flags. Those of one list are gathered first, because together
// they replace what weaker layers had.
func (l *loader) loadFlags(given []FlagValue) {
	lists := map[string][]string{}
	for _, g := range given {
		f, negated := l.flagRow(g.Name)
		o := Origin{Source: fromFlag, Name: "--" + g.Name}
		switch {
		case f == nil:
			l.report("", o, "--%s is not a flag%s", document.Clip(g.Name), l.meantFlag(g.Name))
		case f.kind == kindList:
			lists[f.path] = append(lists[f.path], g.Value)
		case negated:
			l.storeNegated(f, g.Value, o)
		default:
			l.store(&l.cfg, f, f.path, g.Value, o)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(lists)) {
		f := find(l.rows, path)
		o := Origin{Source: fromFlag, Name: "--" + f.flag}
		l.storeList(f, lists[path], slices.Repeat([]Origin{o}, len(lists[path])), o)
	}
}

// storeNegated turns --no-robots into false and --no-robots=false into true.
func (l *loader) storeNegated(f *field, value string, o Origin) {
	v, err := document.ParseBool(value, f.want())
	if err != nil {
		l.report(f.path, o, "%v", err)
		return
	}
	set(&l.cfg, f.path, !v) // the opposite of what was said of the opposite
	l.origins[f.path] = o
}

// flagRow finds the row that a flag writes to, and whether it says the opposite.
func (l *loader) flagRow(name string) (f *field, negated bool) {
	for i := range l.rows {
		f := &l.rows[i]
		switch {
		case f.flag == "":
		case name == f.flag, slices.Contains(f.also, name):
			return f, false
		case f.kind == kindBool && name == negation+f.flag:
			return f, true
		}
	}
	return nil, false
}

// meantFlag guesses for programs whose flag parser lets every name through.
func (l *loader) meantFlag(name string) string {
	var names []string
	for _, f := range Flags() {
		names = append(names, f.Name)
	}
	if meant := spelling.Nearest(name, names); meant != "" {
		return "; did you mean --" + meant + "?"
	}
	return ""
}
