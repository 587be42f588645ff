package config

import (
	"maps"
	"slices"
	"strconv"
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
	Path            string   // the setting the flag writes to; empty for --set, which writes to any
	Arg             string   // what a value is called in help: "file", "time", "n"…
	Words           []string // what to choose from; nil if a value can be anything
	Default         string   // the default as it would be written; empty for none
	Help            string   // one line, with the words of a choice and what zero means
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

const (
	negation = "no-" // begins the name of the flag that switches another off
	setFlag  = "set" // writes to any setting by its path
)

type valueSwitch struct{ flag, short, value, doc string }

// Flags lists the flags in the order of the settings. A switch that is on by default
// is shown as --no-NAME, and every switch has its opposite. The list is the same for all
// callers, who must not change it.
func Flags() []Flag { return flagList() }

var flagList = sync.OnceValue(func() []Flag {
	var all []Flag
	for _, f := range fields() {
		all = append(all, f.flags()...)
	}
	return append(all, Flag{
		Name: setFlag, Arg: "setting", Repeat: true,
		Help: "any setting as PATH=VALUE, such as per_host_max=2, repeatable; crawl config --reference has all",
	})
})

// flags lists a row's flag, its other spellings and, for a switch, its opposite. Of a
// switch and its opposite the one that changes the default is shown.
func (f *field) flags() []Flag {
	shown := Flag{
		Name: f.flag, Shorthand: f.short, Path: f.path, Arg: f.argument(), Words: f.enum, Default: f.def,
		Help: f.help(), Repeat: f.kind == kindList, Switch: f.kind == kindBool,
	}
	var all []Flag
	if f.flag != "" {
		all = append(all, shown)
	}
	for _, name := range f.also {
		other := shown
		other.Name, other.Shorthand, other.Hidden = name, "", true
		all = append(all, other)
	}
	if f.flag != "" && f.kind == kindBool {
		opposite := shown
		opposite.Name, opposite.Shorthand, opposite.Default = negation+f.flag, "", "false"
		opposite.Help = f.unless
		all[0].Hidden, opposite.Hidden = f.unless != "", f.unless == ""
		all = append(all, opposite)
	}
	for _, s := range f.switches {
		all = append(all, Flag{Name: s.flag, Shorthand: s.short, Path: f.path, Default: "false", Help: s.doc, Switch: true})
	}
	return all
}

func (f *field) argument() string {
	switch {
	case f.arg != "":
		return f.arg
	case f.kind == kindChoice:
		return "word"
	case f.kind == kindDuration:
		return "time"
	case f.kind == kindInt:
		return "n"
	}
	return f.kind.String()
}

func (f *field) help() string {
	if f.kind == kindChoice {
		return strings.Join(f.enum, "|") + ": " + f.doc
	}
	return f.doc
}

// loadFlags stores the flags. Those of one list are gathered first, because together
// they replace what weaker layers had.
func (l *loader) loadFlags(given []FlagValue) {
	lists := map[string][]FlagValue{}
	for _, g := range given {
		o := Origin{Source: fromFlag, Name: "--" + g.Name}
		f, text := l.flagRow(g.Name), g.Value
		switch {
		case g.Name == setFlag:
			if f, text = l.byPath(g.Value, &o); f == nil {
				continue
			}
		case f == nil:
			l.noFlag(g.Name, o)
			continue
		case f.flag != g.Name && !slices.Contains(f.also, g.Name):
			var ok bool
			if text, ok = l.switched(f, g, o); !ok {
				continue
			}
		}
		if f.kind == kindList {
			lists[f.path] = append(lists[f.path], FlagValue{o.Name, text})
			continue
		}
		l.store(&l.cfg, f, f.path, text, o)
	}
	for _, path := range slices.Sorted(maps.Keys(lists)) {
		var items []string
		var origins []Origin
		for _, g := range lists[path] {
			items, origins = append(items, g.Value), append(origins, Origin{Source: fromFlag, Name: g.Name})
		}
		l.storeListAt(&l.cfg, find(l.rows, path), path, items, origins, origins[0])
	}
}

func (l *loader) flagRow(name string) *field {
	for i := range l.rows {
		if slices.ContainsFunc(l.rows[i].flags(), func(f Flag) bool { return f.Name == name }) {
			return &l.rows[i]
		}
	}
	return nil
}

// noFlag reports one, for programs whose flag parser lets every name through.
func (l *loader) noFlag(name string, o Origin) {
	if says := RetiredFlag(name); says != "" {
		l.report("", o, "--%s %s", name, says)
		return
	}
	var names []string
	for _, f := range Flags() {
		names = append(names, f.Name)
	}
	hint := ""
	if meant := spelling.Nearest(name, names); meant != "" {
		hint = "; did you mean --" + meant + "?"
	}
	l.report("", o, "--%s is not a flag%s", document.Clip(name), hint)
}

// switched is the value that a switch stands for: --no-robots writes false, --no-robots=false
// true, and --verbose the level debug, --verbose=false nothing.
func (l *loader) switched(f *field, g FlagValue, o Origin) (text string, ok bool) {
	on, err := document.ParseBool(g.Value, "true or false")
	if err != nil {
		l.report(f.path, o, "%v", err)
		return "", false
	}
	for _, s := range f.switches {
		if s.flag != g.Name {
			continue
		}
		if was := strings.TrimPrefix(l.origins[f.path].Name, "--"); on && was != g.Name && slices.ContainsFunc(f.switches, func(s valueSwitch) bool { return s.flag == was }) {
			l.report(f.path, o, "contradicts --%s; give one of --%s and --%s", was, was, g.Name)
		}
		return s.value, on
	}
	return strconv.FormatBool(!on), true // the opposite of what was said of the opposite
}

// byPath is the row and the value of --set; nil if there is no such row, which is reported.
func (l *loader) byPath(setting string, o *Origin) (*field, string) {
	path, value, ok := strings.Cut(setting, "=")
	if !ok { // it may be a secret that was put there by mistake
		l.report("", *o, "--set has no =; give PATH=VALUE, such as per_host_max=2")
		return nil, ""
	}
	o.Name += " " + document.Clip(path)
	f := find(l.rows, path)
	if f == nil {
		l.noSetting(path, *o)
	}
	return f, value
}

func (l *loader) noSetting(path string, o Origin) {
	if path == hostsPath || path == resiliencePath || section(path) == resiliencePath {
		l.report(path, o, "can be given in a file only")
		return
	}
	l.unknown("", path, o, func() []string { return l.names("", l.rows) })
}
