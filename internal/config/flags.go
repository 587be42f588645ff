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

// Flag describes a command line flag, so that a program can declare all of them in one loop and pass what was given as
// [FlagValue]s. Values are texts: [Load] parses them, and so reports mistakes in them together with those of the other
// layers.
type Flag struct {
	// Name is without dashes; Shorthand is one letter or empty.
	Name, Shorthand string
	Path            string   // setting that the flag sets; empty for --set, which sets any
	Arg             string   // name of the value in help: "file", "time", "n"…
	Words           []string // the words to choose from; nil means any value
	Default         string   // default as it would be written; empty means none
	Help            string   // one line, with the words of a choice and what zero means
	// Switch flags need no value; without a value they are "true".
	Switch bool
	// Repeat flags may be given several times, once per item. Of other flags the last one applies.
	Repeat bool
	// Hidden flags work but are not shown in help: other spellings, and the opposite of a switch that is shown.
	Hidden bool
}

// FlagValue is one use of a flag on the command line.
type FlagValue struct {
	Name  string // without dashes
	Value string // "true" for a switch without a value
}

// Secret reports whether the value may be a secret, which is redacted where settings are printed. The name of a file
// with secrets is none.
func (v FlagValue) Secret() bool {
	f := flagRow(v.Name)
	if v.Name == setFlag {
		path, _, _ := strings.Cut(v.Value, "=")
		f = find(fields(), path)
	}
	return f != nil && f.redact != nil && f.wordOf(v.Name) == ""
}

const (
	negation = "no-" // prefix of the name of the flag that switches another one off
	setFlag  = "set" // sets any setting by its path
)

type valueSwitch struct{ flag, short, value, doc string }

// wordFlag is a flag that adds items to a list, each with a word in front. If the argument is a file, the item contains
// its name.
type wordFlag struct{ flag, word, arg, doc string }

// wordOf returns the word in front of the items of a flag; empty if there is none.
func (f *field) wordOf(flag string) string {
	for _, w := range f.words {
		if w.flag == flag {
			return w.word
		}
	}
	return ""
}

// Flags lists the flags in the order of the settings. A switch that is on by default is shown as --no-NAME, and every
// switch has its opposite. All callers share the list, and must not change it.
var Flags = sync.OnceValue(func() []Flag {
	var all []Flag
	for _, f := range fields() {
		all = append(all, f.flags()...)
	}
	return append(all, Flag{
		Name: setFlag, Arg: "setting", Repeat: true,
		Help: "any setting as PATH=VALUE, such as per_host_max=2, repeatable; crawl config --reference has all",
	})
})

// flags lists the flags of a row: its flag, the other spellings and, for a switch, its opposite. Of a switch and its
// opposite the one that changes the default is shown.
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
	for _, w := range f.words {
		all = append(all, Flag{Name: w.flag, Path: f.path, Arg: w.arg, Help: w.doc, Repeat: true})
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

// loadFlags stores the flags. Flags of the same list are collected first, because together they replace what weaker
// layers had.
func (l loader) loadFlags(given []FlagValue) {
	lists := map[string][]written{}
	for _, g := range given {
		w := written{g.Value, Origin{Source: fromFlag, Name: "--" + g.Name}}
		f := flagRow(g.Name)
		switch {
		case g.Name == setFlag:
			if f = l.byPath(&w); f == nil {
				continue
			}
		case f == nil:
			l.noFlag(g.Name, w.from)
			continue
		case f.wordOf(g.Name) != "":
			w.text = f.wordOf(g.Name) + w.text
		case f.flag != g.Name && !slices.Contains(f.also, g.Name):
			if !l.switched(f, g.Name, &w) {
				continue
			}
		}
		if f.kind == kindList {
			lists[f.path] = append(lists[f.path], w)
			continue
		}
		l.store(f.path, w)
	}
	for _, path := range slices.Sorted(maps.Keys(lists)) {
		l.storeList(path, lists[path], lists[path][0].from)
	}
}

func flagRow(name string) *field {
	return firstRow(fields(), func(f *field) bool {
		return slices.ContainsFunc(f.flags(), func(f Flag) bool { return f.Name == name })
	})
}

// noFlag reports an unknown flag, for programs whose flag parser accepts any name.
func (l loader) noFlag(name string, o Origin) {
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

// switched replaces the text of a switch by the value that it stands for, and reports whether there is one: --no-robots
// means false, --no-robots=false means true, --verbose means the level debug, and --verbose=false means nothing.
func (l loader) switched(f *field, name string, w *written) bool {
	on, err := document.ParseBool(w.text, "true or false")
	if err != nil {
		l.report(f.path, w.from, "%v", err)
		return false
	}
	for _, s := range f.switches {
		if s.flag != name {
			continue
		}
		if was := strings.TrimPrefix(l.origins[f.path].Name, "--"); on && was != name && slices.ContainsFunc(f.switches, func(s valueSwitch) bool { return s.flag == was }) {
			l.report(f.path, w.from, "contradicts --%s; give one of --%s and --%s", was, was, name)
		}
		w.text = s.value
		return on
	}
	w.text = strconv.FormatBool(!on) // the flag is the opposite of the setting
	return true
}

// byPath returns the row of a --set flag, and leaves the value in w. If there is no such row, it reports that and
// returns nil.
func (l loader) byPath(w *written) *field {
	path, value, ok := strings.Cut(w.text, "=")
	if !ok { // the text is not repeated: it may be a secret given by mistake
		l.report("", w.from, "--set has no =; give PATH=VALUE, such as per_host_max=2")
		return nil
	}
	w.text = value
	w.from.Name += " " + document.Clip(path)
	f := find(fields(), path)
	switch {
	case f != nil:
	case path == hostsPath, path == itemsPath, path == resiliencePath, section(path) == resiliencePath:
		l.report(path, w.from, "can be given in a file only")
	default:
		l.unknown("", path, w.from, names(""))
	}
	return f
}
