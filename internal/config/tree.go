package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/document"
)

// tree is a configuration, where its values come from, and what is wrong with it.
type tree struct {
	cfg      Config
	origins  map[string]Origin
	bad      map[string]bool // paths with a reported problem
	problems Problems
	more     int // number of problems beyond problemsMax
	warnings []string
}

// newTree returns a tree with c; the caller must set the origins of its values.
func newTree(c Config) *tree {
	return &tree{cfg: c, origins: map[string]Origin{}, bad: map[string]bool{}}
}

// tableOf returns the rows among which a path is, and the prefix of the path in front of theirs: empty, or the path of
// a rule for hosts.
func tableOf(path string) (rows []field, base string) {
	if strings.HasPrefix(path, hostsPath+"[") {
		return hostFields(), path[:strings.IndexByte(path, ']')+1]
	}
	return fields(), ""
}

func row(path string) *field {
	rows, base := tableOf(path)
	return find(rows, strings.TrimPrefix(strings.TrimPrefix(path, base), "."))
}

func (t *tree) root(path string) any {
	if _, base := tableOf(path); base != "" {
		if i, err := strconv.Atoi(base[len(hostsPath)+1 : len(base)-1]); err == nil {
			return &t.cfg.Hosts[i]
		}
	}
	return &t.cfg
}

func (t *tree) get(path string) any { return get(t.root(path), row(path).path) }

func (t *tree) set(path string, v any) bool { return set(t.root(path), row(path).path, v) }

func (t *tree) number(path string) float64 {
	x, _ := number(t.get(path))
	return x
}

func (t *tree) show(path string) string { return row(path).format(t.get(path)) }

// place returns where the value of a path was written, in brackets; empty if that is unknown.
func (t *tree) place(path string) string {
	if o := t.origins[path]; o.Source != "" {
		return " [" + o.String() + "]"
	}
	return ""
}

// written reports whether a user wrote the value, so that it must not be adjusted. A value that a program set counts as
// written, as it may not be a default.
func (t *tree) written(path string) bool { return t.origins[path].written() }

// problemsMax is how many problems are kept. Nobody fixes more in one go, and a large file of garbage must not cause a
// larger message.
const problemsMax = 100

// report records a problem and marks its path as bad, so that consequences of the same value are not reported again.
func (t *tree) report(path string, o Origin, format string, args ...any) {
	t.bad[path] = true
	if len(t.problems) >= problemsMax {
		t.more++
		return
	}
	t.problems = append(t.problems, Problem{Path: path, Origin: o, Text: fmt.Sprintf(format, args...)})
}

// wrong reports a problem with a value, at the place where it was written.
func (t *tree) wrong(path, format string, args ...any) {
	t.report(path, t.origins[path], format, args...)
}

func (t *tree) warn(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

func (t *tree) err() error {
	if len(t.problems) == 0 {
		return nil
	}
	sortProblems(t.problems) // sort before adding the last line, which has no path and would come first
	if t.more > 0 {
		t.problems = append(t.problems, Problem{Text: fmt.Sprintf("and %d more", t.more)})
	}
	return t.problems
}

// names returns the paths of the settings and sections in the same table as a path. Sections count too, as a misspelled
// section hides all settings in it.
func names(path string) []string {
	var known []string
	rows, base := tableOf(path)
	for i := range rows {
		known = append(known, document.Join(base, rows[i].path))
		if s := section(rows[i].path); s != "" {
			known = append(known, document.Join(base, s))
		}
	}
	if base == "" {
		known = append(known, hostsPath, resiliencePath, itemsPath)
	}
	return known
}
