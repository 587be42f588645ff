package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// programGroups are the structs of a program's settings: those of the sections whose names they have, and of others.
var programGroups = []struct{ name, sections, doc string }{
	{"Scope", "scope robots.follow_nofollow traps sitemaps", "says which of the URLs found belong to the crawl."},
	{"Politeness", "ratelimit robots", "says how fast requests are sent to a host, and which of its rules are obeyed."},
	{"Fetch", "fetch", "says how a page is requested."},
	{"Access", "access", "has credentials, cookies, proxies and name servers. Texts with a secret may use ${NAME} for an environment variable, which is looked up when the crawl is built and not saved with it."},
	{"Render", "render", "says which pages a browser renders before they are read. The program must import the package browser."},
	{"Extract", "extract duplicates", "says what is extracted from pages beside links and text."},
	{"Output", "output", "says what records contain."},
	{"Archive", "warc", "says how archives are written; see [OpenArchive]."},
	{"Fleet", "fleet", "says to which crawl of several processes this one belongs."},
	{"Traces", "traces", "says where a trace of each URL is sent, by OTLP over HTTP."},
}

// ofCommand are the settings that a program has other means for, and so no field.
var ofCommand = []string{"seeds", "output.path", "output.format", "output.events", "warc.dir", "stats", "listen", "log"}

// programNames are the names of fields that have another name than in [Config], above all those of a setting that is
// true by default: the field says the opposite.
var programNames = map[string]string{
	"robots.enabled": "IgnoreRobots", "traps.enabled": "FollowTraps", "traps.report": "ReportTraps", "traps.after": "TrapsAfter",
	"sitemaps.enabled": "IgnoreSitemaps", "sitemaps.feeds": "IgnoreFeeds", "fetch.conditional": "Unconditional",
	"warc.host": "HideHost", "duplicates.find": "Duplicates", "ratelimit.retry_max_attempts": "Retries", "state.dir": "StateDir",
}

// program is the field of a setting in a program's structs: its group, empty for the one around all, and its name.
func (f *field) program() (group, name string, ok bool) {
	s := section(f.path)
	if f.noStruct || slices.Contains(ofCommand, f.path) || slices.Contains(ofCommand, s) {
		return "", "", false
	}
	for _, path := range []string{f.path, s} {
		for _, g := range programGroups {
			if group == "" && slices.Contains(strings.Fields(g.sections), path) {
				group = g.name
			}
		}
	}
	name = programNames[f.path]
	if name == "" {
		name = goName(reflect.TypeFor[Config](), f.path)
	}
	return group, name, true
}

// goName is the name of the struct field of a path.
func goName(typ reflect.Type, path string) (name string) {
	for part := range strings.SplitSeq(path, ".") {
		f := typ.Field(places(typ)[strings.ReplaceAll(part, "_", "")])
		typ, name = f.Type, f.Name
	}
	return name
}

// ProgramField is where a program sets a path: "Politeness.MaxRPS". Empty: nowhere.
func ProgramField(path string) string {
	if base, key, ok := strings.Cut(path, "]."); ok && strings.HasPrefix(base, hostsPath+"[") {
		return "Politeness.Hosts" + base[len(hostsPath):] + "]." + goPath(key)
	}
	switch {
	case path == hostsPath || strings.HasPrefix(path, hostsPath+"["):
		return "Politeness.Hosts" + path[len(hostsPath):]
	case path == resiliencePath || strings.HasPrefix(path, resiliencePath+"."):
		return "Resilience" + path[len(resiliencePath):]
	}
	setting := withoutItem(path)
	if f := row(setting); f != nil {
		if group, name, ok := f.program(); ok {
			return strings.TrimPrefix(group+"."+name, ".") + path[len(setting):]
		}
	}
	return ""
}

// withoutItem is the path of a list, given that of an item.
func withoutItem(path string) string {
	if i := strings.LastIndexByte(path, '['); i > 0 && strings.HasSuffix(path, "]") {
		return path[:i]
	}
	return path
}

// goPath is the path of a key of a rule in names of fields.
func goPath(key string) string {
	setting := withoutItem(key)
	name := goName(reflect.TypeFor[Host](), setting) + key[len(setting):]
	if s := section(setting); s != "" {
		return goName(reflect.TypeFor[Host](), s) + "." + name
	}
	return name
}

// mentioned are settings by their paths, flags, and flags in brackets behind the path.
var mentioned = regexp.MustCompile(`\b[a-z]+\.[a-z_]+\b| \(--[a-z-]+\)|--[a-z][a-z-]*[a-z]|\b[a-z]+_[a-z_]+\b`)

// InProgram puts the names of fields in the place of those of settings and flags. Root and a dot stand before them
// unless it is empty.
func InProgram(root, text string) string {
	return mentioned.ReplaceAllStringFunc(text, func(word string) string {
		name := ""
		switch {
		case word[0] == ' ':
			return ""
		case word[0] == '-':
			if f := ofFlag(word[2:]); f != nil {
				name = ProgramField(f.path)
			}
		case row(word) != nil:
			name = ProgramField(word)
		case !strings.Contains(word, "."):
			if f := ofLeaf(word); f != nil {
				name = ProgramField(f.path)
			}
		}
		switch {
		case name == "":
			return word
		case root != "":
			return root + "." + name
		}
		return name
	})
}

// ofLeaf is the only row whose path ends so; nil if there is none, or are several.
func ofLeaf(name string) (found *field) {
	rows := fields()
	for i := range rows {
		switch f := &rows[i]; {
		case leaf(f.path) != name:
		case found != nil:
			return nil
		default:
			found = f
		}
	}
	return found
}

// ofFlag is the row of a flag; nil if it has none.
func ofFlag(name string) *field {
	rows := fields()
	for i := range rows {
		f := &rows[i]
		if f.flag == name || f.was == name || f.kind == kindBool && f.flag == strings.TrimPrefix(name, "no-") {
			return f
		}
	}
	return nil
}
