package flags

import (
	"strings"

	"github.com/spf13/pflag"
)

// The groups of flags, in the order of the help: first what a crawl is about, then how
// it goes about it.
const (
	GroupSeeds    = "Seeds and scope"
	groupPolite   = "Politeness"
	GroupFetch    = "Fetching"
	GroupAccess   = "Access and network"
	groupOutput   = "Output"
	groupFleet    = "Several processes"
	GroupMessages = "Messages and settings"
	GroupOwn      = "Flags" // of a verb
)

// groupKey is the annotation that carries a flag's group.
const groupKey = "treadlight_group"

// Groups is the order of the help. A verb's own flags come first: they are why its help
// is read.
func Groups() []string {
	return []string{GroupOwn, GroupSeeds, groupPolite, GroupFetch, GroupAccess, groupOutput, groupFleet, GroupMessages}
}

// GroupOfSetting is where the flag of a setting belongs. A setting that is added to a section
// finds its place by itself.
func GroupOfSetting(path string) string {
	section, _, _ := strings.Cut(path, ".")
	switch section {
	case "ratelimit", "robots", "concurrency", "per_host_max", "max_blocked":
		return groupPolite
	case "fetch":
		return GroupFetch
	case "access":
		return GroupAccess
	case "extract", "output", "warc", "state", "stats", "listen", "traces":
		return groupOutput
	case "fleet":
		return groupFleet
	case "log", "": // --set
		return GroupMessages
	}
	return GroupSeeds
}

// SetGroup puts a flag into a group of the help.
func SetGroup(f *pflag.Flag, group string) {
	f.Annotations = map[string][]string{groupKey: {group}}
}

// GroupOf is the group a flag was put into; a verb's own flags are in none.
func GroupOf(f *pflag.Flag) string {
	if g := f.Annotations[groupKey]; len(g) == 1 {
		return g[0]
	}
	return GroupOwn
}
