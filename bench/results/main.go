// Command results writes the tables of docs/benchmarks.md and its pictures from the figures beside it:
//
//	go run ./results
//
// politeness.csv has what each second of a cell brought, speed.csv a line per crawl, resume.csv a line per crawl that was
// killed. `make bench-peers` measures them anew.
package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(".", "../docs"); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "results:", err) // nobody is left to be told
		os.Exit(1)                                      //nolint:forbidigo // a command of its own
	}
}

// run reads the figures below bench, and writes the page and the pictures below docs.
func run(bench, docs string) error {
	page := filepath.Join(docs, "benchmarks.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	out := string(text)
	for _, part := range []struct {
		name string
		read func([]row) (table string, pictures map[string]string)
	}{
		{"politeness", politeness}, {"speed", speed}, {"resume", resume},
	} {
		rows, err := read(filepath.Join(bench, "results", part.name+".csv"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		table, pictures := part.read(rows)
		begin, end := "<!-- "+part.name+" -->\n", "<!-- end -->"
		before, rest, found := strings.Cut(out, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			return fmt.Errorf("%s has no place for %s", page, part.name)
		}
		out = before + begin + "\n" + table + "\n" + end + after
		for name, svg := range pictures {
			if err := os.WriteFile(filepath.Join(docs, "images", name+".svg"), []byte(svg), 0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(page, []byte(out), 0o644)
}

// row is a line of a file, by the names of its columns.
type row map[string]string

func read(path string) ([]row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var rows []row
	for _, line := range lines[1:] {
		r := row{}
		for i, name := range lines[0] {
			r[name] = line[i]
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (r row) number(name string) float64 {
	v, err := strconv.ParseFloat(r[name], 64)
	if err != nil {
		panic(fmt.Sprintf("%s of %v: %v", name, r, err)) // the files are checked in
	}
	return v
}

// sum adds up a list of numbers in a column, from one place of it to another.
func (r row) sum(name string, from, to int) (n float64) {
	for i, field := range strings.Fields(r[name]) {
		if v, err := strconv.Atoi(field); err == nil && i >= from && i < to {
			n += float64(v)
		}
	}
	return n
}

// distinct lists the values of a column in the order in which they come.
func distinct(rows []row, name string) (values []string) {
	for _, r := range rows {
		if !slices.Contains(values, r[name]) {
			values = append(values, r[name])
		}
	}
	return values
}

// where keeps the rows with these values: a name and a value, and so on.
func where(rows []row, pairs ...string) (kept []row) {
	for _, r := range rows {
		fits := true
		for i := 0; i < len(pairs); i += 2 {
			fits = fits && r[pairs[i]] == pairs[i+1]
		}
		if fits {
			kept = append(kept, r)
		}
	}
	return kept
}

func median(rows []row, figure func(row) float64) float64 {
	var v []float64
	for _, r := range rows {
		v = append(v, figure(r))
	}
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// markdown is a table whose first column is text and whose others are figures.
func markdown(head []string, lines [][]string) string {
	var b strings.Builder
	b.WriteString("| " + strings.Join(head, " | ") + " |\n|---|" + strings.Repeat("--:|", len(head)-1) + "\n")
	for _, line := range lines {
		b.WriteString("| " + strings.Join(line, " | ") + " |\n")
	}
	return b.String()
}
