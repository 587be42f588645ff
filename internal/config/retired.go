package config

import (
	"slices"
	"strconv"
	"strings"
)

// gone are retired settings with one successor, and the flags that they had. Paths and flags are separated by spaces;
// flags include single letters.
type gone struct {
	paths, flags string
	instead      string // empty means that the default applies
}

// goneSettings are the retired settings. Each is an error that says what to write instead, in every layer.
var goneSettings = []gone{
	{"output.text", "text no-text", "output.record (--record text)"},
	{"output.links", "links no-links", "output.record (--record no-links)"},
	{"output.body", "body", "output.record (--record body for the bodies, no-digest for nothing of them)"},
	{"output.digest", "digest no-digest", "output.record (--record no-digest)"},
	{"extract.metadata", "metadata no-metadata", "output.record (--record metadata)"},
	{"extract.main_text", "main-text no-main-text", "output.record (--record main-text)"},
	{"scope.drop_params", "drop-param", "scope.canonical (--canonical drop:NAME)"},
	{"access.ipv4", "ipv4 no-ipv4 4", "access.family (--set access.family=ipv4)"},
	{"access.ipv6", "ipv6 no-ipv6 6", "access.family (--set access.family=ipv6)"},
	{"log.quiet", "no-quiet", "log.level (--quiet is error)"},
	{"log.verbose", "no-verbose", "log.level (--verbose is debug)"},
	{"fetch.connect_timeout fetch.header_timeout fetch.body_timeout", "", "fetch.timeout (--timeout), from which it follows"},
	{"frontier.max_hosts", "", "frontier.max_urls, from which it follows"},
	{"render.pdf", "", "render.steps (--step pdf with --screenshot DIR)"},
	{"traps.max_url_length traps.max_depth traps.max_repeats traps.max_stale traps.max_far duplicates.max_pages sitemaps.max " +
		"scope.max_links ratelimit.max_domains fetch.max_ratio access.dns_ttl frontier.resident warc.remember fleet.partitions " +
		"fleet.give_up traces.insecure render.load", "", ""},
}

func (g *gone) says() string {
	if g.instead == "" {
		return "was retired, and its default decides now; leave it out"
	}
	return "was retired; use " + g.instead
}

// retired returns the path of a retired setting, given that or its variable, and what to write instead; empty if there
// was no such setting.
func retired(name string) (path, says string) {
	for i := range goneSettings {
		for path := range strings.FieldsSeq(goneSettings[i].paths) {
			if path == name || (&field{path: path}).env() == name {
				return path, goneSettings[i].says()
			}
		}
	}
	return "", ""
}

// RetiredFlag says what to write instead of a former flag, given its name or letter. The result is a sentence without
// its subject, and empty if there was no such flag.
func RetiredFlag(name string) string {
	for i := range goneSettings {
		if slices.Contains(strings.Fields(goneSettings[i].flags), name) {
			return goneSettings[i].says()
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
