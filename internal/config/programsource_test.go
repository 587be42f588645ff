package config

import (
	"bytes"
	"cmp"
	"fmt"
	"go/format"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// programDocs are what a program is told of a setting in other words than a user of the command.
var programDocs = map[string]string{
	"depth":             "most links between a seed and a page; negative = the seeds alone, zero = no limit",
	"sitemaps.enabled":  "do not request the sitemaps that robots.txt names, or /sitemap.xml",
	"sitemaps.feeds":    "do not read the RSS and Atom feeds that pages name",
	"robots.enabled":    "do not request robots.txt; for your own servers",
	"traps.enabled":     "follow URL traps too: endless calendars, filter combinations and the like, whose pages have nothing new",
	"fetch.conditional": "in later rounds, request every page whole, and not only if it has changed",
	"warc.host":         "keep the name of this machine out of the names of archives and their warcinfo records",
	"scope.include":     "follow only URLs that match one of these regular expressions; seeds need not match; none = all URLs",
	"scope.exclude":     "leave out URLs, seeds too, that match one of these regular expressions",
	"output.overwrite":  "replace existing archives and state",
	"output.record":     "what records also contain: text, main-text (without navigation and footers), metadata (Open Graph, Twitter, JSON-LD), body; and what they leave out: no-links, no-digest (SHA-256 of the body)",
	"cap.kind":          "how the limit counts",
	"cap.permits":       "requests per Per; of the kind concurrency, requests at a time",
	"cap.per":           "span of Permits; none for the kind concurrency",
	"max_in_flight":     "requests in flight at a time, within Options.PerHostMax, which is the default",
	"scope.canonical":   "treat URLs as one that differ only in this: sessions, slashes, tracking, empty-query, index, sort, drop:NAME for a parameter (* in it = any text)",
	"state.dir":         "directory for the state of the crawl, so that it can be resumed with [OpenState]; empty = none",
	"fetch.user_agent":  "User-Agent to send; empty = Treadlight/VERSION (+CONTACT), with Options.Version and Contact",
	"fleet.worker":      "name of this process in it; empty = name of the machine and process number",
}

// programSource is the Go source of the structs that a program sets, and programFields that of the fields that stand
// in the struct around them.
func programSource() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code generated from the table of settings by make docs. DO NOT EDIT.\n\npackage crawl\n\nimport \"time\"\n")
	for _, g := range programGroups {
		writeComment(&b, "", g.name+"Options "+g.doc)
		fmt.Fprintf(&b, "type %sOptions struct {\n", g.name)
		writeFields(&b, g.name)
		if g.name == "Politeness" {
			writeComment(&b, "\t", "Hosts are rules for single hosts; the first that matches counts.")
			b.WriteString("\tHosts []HostOptions `set:\"hosts\"`\n")
		}
		b.WriteString("}\n\n")
	}
	writeHost(&b)
	return format.Source(b.Bytes())
}

func programFields() []byte {
	var b bytes.Buffer
	writeFields(&b, "")
	return b.Bytes()
}

func writeFields(b *bytes.Buffer, group string) {
	for _, f := range fields() {
		if of, _, ok := f.program(); ok && of == group {
			writeField(b, &f, new(Config), f.path, f.def)
		}
	}
}

func writeHost(b *bytes.Buffer) {
	writeComment(b, "", "HostOptions is a rule for the hosts that Match names. A field that is not set is as for all hosts.")
	b.WriteString("type HostOptions struct {\n")
	for _, f := range hostFields() {
		if section(f.path) != "" {
			continue
		}
		zero := ""
		if slices.Contains(hostKeys, f.path) {
			zero = "as for all hosts"
		}
		writeField(b, &f, new(Host), f.path, zero)
	}
	writeComment(b, "\t", "Cap is a limit of requests to each host of the rule. Zero means none.")
	b.WriteString("\tCap Cap `set:\"cap\"`\n")
	writeComment(b, "\t", "Quota is a limit after which a host of the rule is blocked until its windows have passed. Its Kind is not token-bucket, leaky-bucket or concurrency; empty: fixed-window. Zero: none.")
	b.WriteString("\tQuota Cap `set:\"quota\"`\n}\n\n")
	writeComment(b, "", "Cap is a limit of requests to each host of a rule. The zero Cap is none.")
	b.WriteString("type Cap struct {\n")
	for _, f := range hostCaps {
		if section(f.path) == capPath {
			writeField(b, &f, new(Host), leaf(f.path), "")
		}
	}
	b.WriteString("}\n")
}

func writeField(b *bytes.Buffer, f *field, root any, tag, zero string) {
	name := goName(reflect.TypeOf(root).Elem(), f.path)
	if _, ofCrawl := root.(*Config); ofCrawl {
		_, name, _ = f.program()
	}
	writeComment(b, "\t", f.programDoc(name, zero))
	fmt.Fprintf(b, "\t%s %s `set:%q`\n", name, at(root, f.path).Type(), tag)
}

var (
	forFlags  = regexp.MustCompile(`, repeatable|, one of them if repeated|; empty = none$`)
	zeroMeans = regexp.MustCompile(`\b0 = `)
)

// programDoc is what a field of a program means: the sentence of the manual, the range, and what zero is.
func (f *field) programDoc(name, zero string) string {
	text := cmp.Or(programDocs[f.path], f.doc)
	text = forFlags.ReplaceAllString(text, "")
	if f.def != "0" {
		text = zeroMeans.ReplaceAllString(text, "negative = ")
	}
	text = InProgram("", text)
	if f.kind == kindBool {
		return name + ": " + text + "."
	}
	if f.kind == kindChoice {
		text += ". One of " + strings.Join(f.enum, ", ")
	}
	if f.min != "" {
		text += ". Range: " + strings.TrimPrefix(f.min, "-") + " to " + f.max
		if f.kind == kindSize {
			text += ", in bytes"
		}
	}
	switch {
	case zero != "" && f.kind == kindChoice || zero != "" && f.kind == kindText:
		text += ". Empty: " + zero
	case zero != "" && !strings.Contains(text, "0 = ") && !strings.Contains(text, "zero = "):
		text += ". Zero: " + zero
	}
	switch _, isNumber := number(f.bound(cmp.Or(f.example, f.def))); {
	case f.example == "":
	case isNumber:
		text += ". For example " + f.example
	case f.kind == kindList && len(f.enum) > 0:
		text += `. For example "` + strings.ReplaceAll(f.example, ",", `", "`) + `"`
	default:
		text += ". For example " + quoted(f.example)
	}
	return name + ": " + text + "."
}

func quoted(s string) string {
	if strings.Contains(s, `\`) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

func writeComment(b *bytes.Buffer, indent, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(indent)*4+len(line)+len(word) > 115 {
			fmt.Fprintf(b, "%s//%s\n", indent, line)
			line = ""
		}
		line += " " + word
	}
	fmt.Fprintf(b, "%s//%s\n", indent, line)
}
