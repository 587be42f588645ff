// Command contender is the programs that the comparison of peers needs and nobody ships:
// loops that are as bare as a crawl can be written, a colly program as its
// documentation shows it, and our crawl in a process that can be profiled.
//
//	contender fetch -list FILE -origin URL   ask for every path of the list, read the answers
//	contender tokens -list FILE -origin URL  the same, and look for links with x/net/html
//	contender colly URL                      crawl the host with colly
//	contender colly-list -list FILE          ask for every URL of the list with colly
//	contender crawl [-strategy S] [-cpu FILE] [-allocs FILE] [-runs N] URL
//
// It says how many pages and links it met on standard output. A contender exits with 1
// when it could not do its work, with 2 when it was asked for nothing it knows.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// options is what any contender may be told.
type options struct {
	inFlight    int
	list        string // file with one path per line
	origin      string // what the paths are below, no slash at its end
	cpu, allocs string // files for profiles; empty means none
	runs        int    // crawls in a row, for a profile with enough samples
	strategy    string // of our crawl
	seeds       []string
}

// counts is what a contender met.
type counts struct{ pages, links int64 }

var errUsage = errors.New("usage: contender fetch|tokens|colly|colly-list|crawl [flags] [URL]")

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "contender:", err) // nobody is left to be told
		code := 1
		if errors.Is(err, errUsage) {
			code = 2
		}
		os.Exit(code) //nolint:forbidigo // a command of its own
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	o, err := parse(args[1:])
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	var n counts
	switch args[0] {
	case "fetch":
		n, err = loop(o, func([]byte) int64 { return 0 })
	case "tokens":
		n, err = loop(o, links)
	case "colly":
		n, err = crawlColly(o)
	case "colly-list":
		n, err = collyList(o)
	case "crawl":
		n, err = crawlOurs(o)
	default:
		err = errUsage
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "pages=%d links=%d\n", n.pages, n.links)
	return err
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("contender", flag.ContinueOnError)
	f.IntVar(&o.inFlight, "in-flight", 16, "requests under way at a time")
	f.StringVar(&o.list, "list", "", "file with the paths, or URLs, to ask for, one per line")
	f.StringVar(&o.origin, "origin", "", "scheme, address and port that the paths are below")
	f.StringVar(&o.cpu, "cpu", "", "write a CPU profile to this file")
	f.StringVar(&o.allocs, "allocs", "", "write a profile of allocations to this file")
	f.IntVar(&o.runs, "runs", 1, "crawls in a row, for a profile")
	f.StringVar(&o.strategy, "strategy", "off", "how our crawl paces")
	err := f.Parse(args)
	o.seeds = f.Args()
	return o, err
}
