package config

import (
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/document"
)

// gone is a retired setting, with the names that it had.
type gone struct {
	path    string
	flags   string // separated by spaces, including single letters
	instead string // empty means that the default applies
	became  string // for a crawl that was begun with it, "VALUE=WORD": the word to add for that value; "*=": any value
}

// goneSettings are the retired settings. Each is an error that says what to write instead, in every layer.
var goneSettings = []gone{
	{"output.text", "text no-text", "output.record (--record text)", "true=text"},
	{"output.links", "links no-links", "output.record (--record no-links)", "false=no-links"},
	{"output.body", "body", "output.record (--record body for the bodies, no-digest for nothing of them)", "true=body"},
	{"output.digest", "digest no-digest", "output.record (--record no-digest)", "false=no-digest"},
	{"extract.metadata", "metadata no-metadata", "output.record (--record metadata)", "true=metadata"},
	{"extract.main_text", "main-text no-main-text", "output.record (--record main-text)", "true=main-text"},
	{"scope.drop_params", "drop-param", "scope.canonical (--canonical drop:NAME)", "*=drop:"},
	{"access.ipv4", "ipv4 no-ipv4 4", "access.family (--set access.family=ipv4)", "true=ipv4"},
	{"access.ipv6", "ipv6 no-ipv6 6", "access.family (--set access.family=ipv6)", "true=ipv6"},
	{"log.quiet", "no-quiet", "log.level (--quiet is error)", ""},
	{"log.verbose", "no-verbose", "log.level (--verbose is debug)", ""},
	{"fetch.connect_timeout", "", "fetch.timeout (--timeout), from which it follows", ""},
	{"fetch.header_timeout", "", "fetch.timeout (--timeout), from which it follows", ""},
	{"fetch.body_timeout", "", "fetch.timeout (--timeout), from which it follows", ""},
	{"frontier.max_hosts", "", "frontier.max_urls, from which it follows", ""},
	{"traps.max_url_length", "", "", ""},
	{"traps.max_depth", "", "", ""},
	{"traps.max_repeats", "", "", ""},
	{"traps.max_stale", "", "", ""},
	{"traps.max_far", "", "", ""},
	{"duplicates.max_pages", "", "", ""},
	{"sitemaps.max", "", "", ""},
	{"scope.max_links", "", "", ""},
	{"ratelimit.max_domains", "", "", ""},
	{"fetch.max_ratio", "", "", ""},
	{"access.dns_ttl", "", "", ""},
	{"frontier.resident", "", "", ""},
	{"warc.remember", "", "", ""},
	{"fleet.partitions", "", "", ""},
	{"fleet.give_up", "", "", ""},
	{"traces.insecure", "", "", ""},
	{"render.load", "", "", ""},
	{"render.pdf", "", "render.steps (--step pdf with --screenshot DIR)", ""},
}

func (g *gone) says() string {
	if g.instead == "" {
		return "was retired, and its default decides now; leave it out"
	}
	return "was retired; use " + g.instead
}

func (g *gone) successor() string {
	name, _, _ := strings.Cut(g.instead, " ")
	return strings.TrimSuffix(name, ",")
}

// carry translates a retired setting of a saved crawl to its successor. If there is no successor, or the value has no
// meaning for it, the default applies.
func (f *fileWalk) carry(g *gone, n document.Node) {
	value, word, _ := strings.Cut(g.became, "=")
	items := n.Items
	if n.Single() {
		items = []document.Node{n}
	}
	for _, item := range items {
		text := word
		switch value {
		case "":
			continue
		case "*":
			text += item.Text
		case item.Text:
		default:
			continue
		}
		f.carried[g.successor()] = append(f.carried[g.successor()], written{text, f.origin(item.Line)})
	}
}

func (f *fileWalk) carryOver() {
	for path, words := range f.carried {
		items, ok := f.get(path).([]string)
		if !ok {
			f.store(path, words[0])
			continue
		}
		o := f.origins[path]
		var all []written
		for _, item := range items {
			all = append(all, written{item, o})
		}
		f.storeList(path, append(all, words...), o)
	}
}

func retired(name string) *gone {
	for i := range goneSettings {
		if path := goneSettings[i].path; path == name || (&field{path: path}).env() == name {
			return &goneSettings[i]
		}
	}
	return nil
}

// RetiredFlag says what to write instead of a former flag, given its name or letter. The result is a sentence without
// its subject, and empty if there was no such flag.
func RetiredFlag(name string) string {
	for i := range goneSettings {
		for old := range strings.FieldsSeq(goneSettings[i].flags) {
			if old == name {
				return goneSettings[i].says()
			}
		}
	}
	for _, f := range fields() {
		if f.was != "" && (name == f.was || f.kind == kindBool && name == negation+f.was) {
			value := "VALUE"
			if f.kind == kindBool {
				value = strconv.FormatBool(name == f.was)
			}
			return "is no flag any more; give --set " + f.path + "=" + value + ", " + f.env() + ", or " + f.path + " in a file"
		}
	}
	return ""
}
