package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
)

// programGroups are the structs of a program's settings. Each contains the listed sections and settings.
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

// ofCommand are the settings that have no field because a program has other means for them.
var ofCommand = []string{"seeds", "output.path", "output.format", "output.chunk", "output.events", "output.skipped", "warc.dir", "stats", "listen", "log"}

// programNames are the fields with another name than in [Config]: above all those of settings that are true by default,
// as their field says the opposite.
var programNames = map[string]string{
	"robots.enabled": "IgnoreRobots", "traps.enabled": "FollowTraps", "traps.report": "ReportTraps", "traps.after": "TrapsAfter",
	"sitemaps.enabled": "IgnoreSitemaps", "sitemaps.feeds": "IgnoreFeeds", "fetch.conditional": "Unconditional",
	"warc.host": "HideHost", "duplicates.find": "Duplicates", "ratelimit.retry_max_attempts": "Retries", "state.dir": "StateDir",
}

// program returns the field of a setting in a program's structs: the name of its group, which is empty for the
// outermost struct, and its own name.
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

// goName returns the name of the struct field of a path.
func goName(typ reflect.Type, path string) (name string) {
	for part := range strings.SplitSeq(path, ".") {
		f := typ.Field(places(typ)[strings.ReplaceAll(part, "_", "")])
		typ, name = f.Type, f.Name
	}
	return name
}

// ProgramField returns the field with which a program sets a path, such as "Politeness.MaxRPS"; empty if there is none.
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

// withoutItem returns the path of a list, given the path of one of its items.
func withoutItem(path string) string {
	if i := strings.LastIndexByte(path, '['); i > 0 && strings.HasSuffix(path, "]") {
		return path[:i]
	}
	return path
}

// goPath returns the path of a rule's key, in names of fields.
func goPath(key string) string {
	setting := withoutItem(key)
	name := goName(reflect.TypeFor[Host](), setting) + key[len(setting):]
	if s := section(setting); s != "" {
		return goName(reflect.TypeFor[Host](), s) + "." + name
	}
	return name
}

// mentioned matches settings by their paths, flags, and flags in parentheses behind a path.
var mentioned = lazy.Regexp(`\b[a-z]+\.[a-z_]+\b| \(--[a-z-]+\)|--[a-z][a-z-]*[a-z]|\b[a-z]+_[a-z_]+\b`)

// InProgram replaces the names of settings and flags in a text by those of fields, with root and a dot in front unless
// root is empty.
func InProgram(root, text string) string {
	return mentioned().ReplaceAllStringFunc(text, func(word string) string {
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

// ofLeaf returns the only row whose path ends with that name; nil if there is none or several.
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

// ofFlag returns the row of a flag; nil if there is none.
func ofFlag(name string) *field {
	return firstRow(fields(), func(f *field) bool {
		return f.flag == name || f.was == name || f.kind == kindBool && f.flag == strings.TrimPrefix(name, negation)
	})
}
