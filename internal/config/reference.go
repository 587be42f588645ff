package config

import (
	"bufio"
	"cmp"
	_ "embed" // for the manual
	"fmt"
	"io"
	"slices"
	"strings"
)

// Text of the manual besides its tables.
var (
	//go:embed manual/preamble.md
	preamble string
	//go:embed manual/hosts.md
	hostsHead string
	//go:embed manual/fields.md
	fieldsHead string
	//go:embed manual/resilience.md
	policyTable string
)

// Reference writes the manual of all settings as Markdown. The error is that of w.
func Reference(w io.Writer) error {
	b := bufio.NewWriter(w) // Flush returns the first error
	_, _ = b.WriteString(preamble)
	last := "-" // no section has this name, so that the first one gets its heading too
	for _, f := range fields() {
		if s := section(f.path); s != last {
			switch last {
			case "ratelimit":
				writeHostReference(b)
			case "access":
				_, _ = b.WriteString(policyTable)
			case "extract":
				_, _ = b.WriteString(fieldsHead)
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

func writeRow(b *bufio.Writer, cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	_, _ = b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

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
	// The units of other kinds are part of the bounds, or follow from the kind.
	if f.kind == kindInt && f.unit != "" {
		s += " " + f.unit
	}
	if f.zero != "" {
		s = "0, " + s
	}
	return s
}

// flagText lists the ways to give the flag: for a switch only the one that changes the default, for others every
// spelling.
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

func (f *field) meaning() string {
	if f.example == "" {
		return f.doc
	}
	return f.doc + "; for example " + code(f.example)
}
