package testsite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// checkFiles is about --scenario, --file and --report. What is wrong with the report's
// place is better said before an hour of measuring than after it.
func (o *Options) checkFiles(changed func(string) bool) error {
	o.given = "--file"
	if changed("scenario") {
		o.given = "--scenario"
	}
	switch {
	case changed("scenario") && changed("file"):
		return exit.Usage(errors.New("--scenario and --file both name a site: give one of them"))
	case (changed("scenario") || changed("file")) && o.File == "":
		return exit.Usage(fmt.Errorf("%s: give the name of a file", o.given))
	case changed("report") && o.ReportTo == "":
		return exit.Usage(errors.New("--report: give the name of a file, or - for standard output"))
	case o.ReportTo == "-":
		o.AsJSON, o.ReportTo = true, ""
		return nil
	case o.ReportTo == "":
		return nil
	}
	if info, err := os.Stat(o.ReportTo); err == nil && info.IsDir() {
		return exit.Usage(fmt.Errorf("--report %s: it is a directory; give a file in it", o.ReportTo))
	}
	if _, err := os.Stat(filepath.Dir(o.ReportTo)); err != nil {
		return exit.IO(fmt.Errorf("--report %s: %w", o.ReportTo, exit.Cause(err)))
	}
	return nil
}

// readScenario reads the site's file. It may have many things wrong with it, each a line.
func (o *Options) readScenario() (testsite.Config, error) {
	data, err := os.ReadFile(o.File)
	if err != nil {
		return testsite.Config{}, exit.IO(fmt.Errorf("read %s %s: %w", o.given, o.File, exit.Cause(err)))
	}
	cfg, err := testsite.Parse(data)
	if err == nil {
		return cfg, nil
	}
	var lines []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, fmt.Errorf("%s: %s", o.File, line))
	}
	return cfg, exit.Usage(errors.Join(lines...))
}

// saveReport writes the report of --report.
func (o *Options) saveReport(site *testsite.Site) error {
	if o.ReportTo == "" {
		return nil
	}
	r := site.Report()
	write := func(w io.Writer) error { return encodeReport(w, &r) }
	if err := atomicfile.Replace(o.ReportTo, 0o666, write); err != nil {
		return exit.Write("--report "+o.ReportTo, exit.Cause(err))
	}
	return nil
}

func encodeReport(w io.Writer, r *testsite.Report) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
