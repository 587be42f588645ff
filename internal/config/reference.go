package config

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// preamble is what the tables of the manual do not say by themselves.
const preamble = `# Configuration reference

Values come from four layers, each stronger than the one before: defaults, the
configuration file (YAML or JSON), the environment, flags. A stronger layer replaces a
value whole, lists included. Unknown keys in a file are errors; unknown CRAWL_
variables are warnings, and empty ones count as not set.

- A *duration* is written with its units: 200ms, 30s, 1h30m.
- A *size* is a number of bytes or has a unit: 512KiB and 10MiB count in 1024, 10MB in
  1000.
- A *rate* is a number of requests per second.
- A *list* is a YAML or JSON list; a flag that is repeated; lines of a variable.
- A setting without a flag of its own is given by --set PATH=VALUE, as in
  --set per_host_max=2.
- A *bool* is true or false; --no-FLAG switches off what --FLAG switches on.

The file is named by --config or CRAWL_CONFIG. Rules for single hosts and the policies
of resilience can be given in it only.

Settings that bound each other may be given alone: what was not written moves. With
--rate 20 alone the largest rate is 20 too, with --max-rate 0.5 alone a host starts at
0.5. Two written values that contradict each other are an error.

A crawl that is resumed begins with the settings of its first run in the place of the
defaults. A file and flags that are given then are stronger; variables are not read again.
output.path, output.format, warc.dir, warc.prefix and state.dir stay.

A crawl that is sent SIGHUP reads its file again and takes over, for all hosts at once,
ratelimit.initial_rps, ratelimit.min_rps, ratelimit.max_rps and ratelimit.min_delay, the
rules under hosts but for their caps, quotas and max_in_flight, and log.level. It names
the other settings that have changed: they stay as they were until the next crawl. So
does everything when the file is wrong.
`

const hostsHead = `
## hosts

A list of rules for single hosts, of which the first that matches counts. What a rule
leaves out is taken from the setting in the last column. A cap and a quota are groups,
cap: {kind: token-bucket, permits: 10, per: 1s}: hard limits beside what is learned,
and each host that matches has its own. The rates may also be spelled initial_rate,
min_rate and max_rate.

| Key | Type | Range | Meaning | Else |
|---|---|---|---|---|
`

// Reference writes the manual of all settings in Markdown. The error is that of w.
func Reference(w io.Writer) error {
	b := bufio.NewWriter(w) // keeps the first error until Flush
	_, _ = b.WriteString(preamble)
	last := "-" // no section has this name, so that the first one gets its heading too
	for _, f := range fields() {
		if s := section(f.path); s != last {
			switch last {
			case "ratelimit":
				writeHostReference(b)
			case "access":
				writePolicyReference(b)
			case "extract":
				writeFieldsReference(b)
			}
			last = s
			_, _ = fmt.Fprintf(b, "\n## %s\n\n| Setting | Type | Default | Range | Flag | Variable | Meaning |\n|---|---|---|---|---|---|---|\n",
				cmp.Or(s, "general"))
		}
		writeRow(b, code(f.path), f.kind.String(), code(f.def), f.bounds(), f.flagText(), code(f.env()), f.meaning())
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write reference: %w", err)
	}
	return nil
}

// writeHostReference comes behind the section whose values the rules replace.
func writeHostReference(b *bufio.Writer) {
	_, _ = b.WriteString(hostsHead)
	for _, f := range hostFields() {
		from := code(inherit(f.path))
		switch {
		case f.path == hostMatch.path:
			from = "required"
		case !slices.Contains(hostKeys, f.path):
			from = "none"
		}
		writeRow(b, code(f.path), f.kind.String(), f.bounds(), f.meaning(), from)
	}
}

// writeRow writes one line of a table, in which a bar would end the cell.
func writeRow(b *bufio.Writer, cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	_, _ = b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// code marks a text that is written as it stands.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// bounds is what values are allowed.
func (f *field) bounds() string {
	switch {
	case f.kind == kindChoice:
		return code(strings.Join(f.enum, "` `"))
	case f.kind == kindBool:
		return code("true` `false")
	case f.min == "":
		return ""
	}
	s := f.min + " to " + f.max
	// The units of the other kinds are written with the bounds or named by the kind.
	if f.kind == kindInt && f.unit != "" {
		s += " " + f.unit
	}
	if f.zero != "" {
		s = "0, " + s
	}
	return s
}

// flagText lists the ways to give the flag: of a switch only the one that changes
// something, of others every spelling.
func (f *field) flagText() string {
	if f.flag == "" {
		return ""
	}
	var all []string
	for _, flag := range f.flags() {
		if flag.Shorthand != "" {
			all = append(all, code("-"+flag.Shorthand))
		}
		if !flag.Hidden || !flag.Switch {
			all = append(all, code("--"+flag.Name))
		}
	}
	return strings.Join(all, " ")
}

// meaning is the sentence, with an example where the default is none.
func (f *field) meaning() string {
	if f.example == "" {
		return f.doc
	}
	return f.doc + "; for example " + code(f.example)
}
