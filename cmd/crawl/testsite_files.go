package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// The manual of the verb, apart from its flags.
const (
	testsiteLong = `Testsite serves hosts on 127.0.0.0/8 addresses. Pages and links are generated
from a seed, so every run is the same site. Each host may have a latency, limits
of every usual kind with or without Retry-After, a load that slows it down, a
capacity that changes with the time of day, a ban after too many refusals,
scripted statuses, outages and a robots.txt.

It prints the hosts' addresses on standard output, serves until interrupted, and
then prints what it saw: requests, refusals, requests inside a Retry-After, the
smallest gap between two requests, pages served twice, and for each limited host
how much of what it allows was used, and since when. Any crawler can be measured
by it. Ctrl-C and SIGTERM end it; the report of --report is written then.`
	testsiteExample = `  crawl testsite --hosts 20 --pages 51 --latency 20ms
  crawl testsite --limit 5 --burst 2 --retry-after
  crawl testsite --preset mixed            one host of each kind
  crawl testsite --preset mixed --print    the YAML of it, to start a file from
  crawl testsite --scenario site.yaml --report report.json
  crawl testsite --scenario site.json --for 5m --report - | jq .total
  crawl testsite --limit 5 --port 8080 & crawl http://127.0.1.1:8080/`
)

// checkFiles is about --scenario, --file and --report. What is wrong with the report's
// place is better said before an hour of measuring than after it.
func (o *siteOptions) checkFiles(changed func(string) bool) error {
	o.given = "--file"
	if changed("scenario") {
		o.given = "--scenario"
	}
	switch {
	case changed("scenario") && changed("file"):
		return usage(errors.New("--scenario and --file both name a site: give one of them"))
	case (changed("scenario") || changed("file")) && o.file == "":
		return usage(fmt.Errorf("%s: give the name of a file", o.given))
	case changed("report") && o.reportTo == "":
		return usage(errors.New("--report: give the name of a file, or - for standard output"))
	case o.reportTo == "-":
		o.asJSON, o.reportTo = true, ""
		return nil
	case o.reportTo == "":
		return nil
	}
	if info, err := os.Stat(o.reportTo); err == nil && info.IsDir() {
		return usage(fmt.Errorf("--report %s: it is a directory; give a file in it", o.reportTo))
	}
	if _, err := os.Stat(filepath.Dir(o.reportTo)); err != nil {
		return ioError(fmt.Errorf("--report %s: %w", o.reportTo, cause(err)))
	}
	return nil
}

// readScenario reads the site's file. It may have many things wrong with it, each a line.
func (o *siteOptions) readScenario() (testsite.Config, error) {
	data, err := os.ReadFile(o.file)
	if err != nil {
		return testsite.Config{}, ioError(fmt.Errorf("read %s %s: %w", o.given, o.file, cause(err)))
	}
	cfg, err := testsite.Parse(data)
	if err == nil {
		return cfg, nil
	}
	var lines []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, fmt.Errorf("%s: %s", o.file, line))
	}
	return cfg, usage(errors.Join(lines...))
}

// saveReport writes the report of --report.
func (o *siteOptions) saveReport(site *testsite.Site) error {
	if o.reportTo == "" {
		return nil
	}
	r := site.Report()
	write := func(w io.Writer) error { return encodeReport(w, &r) }
	if err := atomicfile.Replace(o.reportTo, 0o666, write); err != nil {
		return writeError("--report "+o.reportTo, cause(err))
	}
	return nil
}

func encodeReport(w io.Writer, r *testsite.Report) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
