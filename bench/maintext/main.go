// Command maintext measures what finds the main text of pages: our own and the libraries there are for Go, on two
// public sets of labelled pages. Each set is split into two halves by a hash of the page's identifier: the one that
// rules and figures may be tuned on, and the one that is kept for the end.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	articles := flag.String("articles", "", "checkout of scrapinghub/article-extraction-benchmark")
	kinds := flag.String("kinds", "", "checkout of Murrough-Foley/web-content-extraction-benchmark")
	names := flag.String("extractors", "", "names, by comma; all if empty")
	half := flag.String("half", "tuning", "tuning, kept or all")
	out := flag.String("out", "", "directory for the texts, as the sets' own evaluate.py read them")
	flag.Parse()
	if err := run(*articles, *kinds, *names, *half, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(articles, kinds, names, half, out string) error {
	if articles != "" {
		pages, err := scrapinghub(articles)
		if err != nil {
			return err
		}
		measure("articles", pages, names, half, out, shingled)
	}
	if kinds != "" {
		pages, err := wcxb(kinds)
		if err != nil {
			return err
		}
		measure("kinds", pages, names, half, out, worded)
	}
	return nil
}

func measure(set string, pages []page, names, half, out string, by func([]page, []string) score) {
	pages = slices.DeleteFunc(pages, func(p page) bool { return half == "tuning" && p.kept || half == "kept" && !p.kept })
	kinds := make(map[string]bool)
	for _, p := range pages {
		kinds[p.kind] = true
	}
	fmt.Printf("%s: %d pages, %s\n", set, len(pages), half)
	for _, e := range extractors {
		if names != "" && !slices.Contains(strings.Split(names, ","), e.name) {
			continue
		}
		texts := make([]string, len(pages))
		before, slowest, worst := cpu(), time.Duration(0), ""
		for i, p := range pages {
			at, err := url.Parse(p.url)
			if err != nil {
				at = &url.URL{Scheme: "https", Host: "site.example"}
			}
			start := time.Now()
			texts[i] = guarded(e.text, p.html, at)
			if took := time.Since(start); took > slowest {
				slowest, worst = took, p.id
			}
		}
		ms := float64((cpu() - before).Microseconds()) / 1000 / float64(max(1, len(pages)))
		all := by(pages, texts)
		fmt.Printf("%-28s F1 %.4f  P %.4f  R %.4f  %6.1f ms CPU a page, slowest %v (%.8s)", e.name, all.f1, all.precision, all.recall, ms, slowest.Round(time.Millisecond), worst)
		for _, k := range slices.Sorted(keys(kinds)) {
			if len(kinds) == 1 {
				break
			}
			var some []page
			var their []string
			for i, p := range pages {
				if p.kind == k {
					some, their = append(some, p), append(their, texts[i])
				}
			}
			fmt.Printf("  %.5s %.3f", k, by(some, their).f1)
		}
		fmt.Println()
		if out != "" {
			save(filepath.Join(out, set+"-"+e.name+".json"), pages, texts)
		}
	}
}

func keys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// guarded is no text for a page that a library panics on.
func guarded(text func([]byte, *url.URL) string, page []byte, at *url.URL) (s string) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintln(os.Stderr, "panic:", at, r)
		}
	}()
	return text(page, at)
}

func save(file string, pages []page, texts []string) {
	all := make(map[string]map[string]string)
	for i, p := range pages {
		all[p.id] = map[string]string{"articleBody": texts[i]}
	}
	data, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
