package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"log/slog"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/pipeline"
)

// maxListed is how many URLs are remembered as listed, in some 10 MB. A menu links to the same ones on every page, so
// when there are more, all are forgotten, and listed again if they come again.
const maxListed = 1 << 18

// skippedFile lists the URLs that a crawl leaves out, with the reason, as lines of JSON: once for each reason. After a
// failed write it writes nothing more, and the crawl goes on. Without output.skipped it does nothing. Its methods are not
// safe for concurrent use: the goroutine that writes records calls its hook, and others use it when the crawl has ended.
type skippedFile struct {
	lineFile
	log *slog.Logger

	seed    maphash.Seed
	listed  map[uint64]struct{} // URL and reason, hashed; at most maxListed
	buf     bytes.Buffer        // of one line
	written int64               // lines in the file
	failed  error               // the first failure
}

// skippedLine is a line of the file.
type skippedLine struct {
	URL      string `json:"url"`
	Reason   string `json:"reason"` // a name to count by
	Detail   string `json:"detail"` // the reason in words
	Referrer string `json:"referrer,omitempty"`
}

func openSkipped(path string, stderr *cli.Terminal, log *slog.Logger) (*skippedFile, error) {
	f, err := openLines("output.skipped", path, "standard error", stderr)
	return &skippedFile{lineFile: f, log: log, seed: maphash.MakeSeed(), listed: make(map[uint64]struct{})}, err
}

// hook returns a function that lists a URL. It returns nil without output.skipped; the crawl then collects none.
func (s *skippedFile) hook() func(pipeline.Skip) {
	if s.name == "" {
		return nil
	}
	return s.add
}

func (s *skippedFile) add(skip pipeline.Skip) {
	key := maphash.String(s.seed, skip.Reason+" "+skip.URL)
	if _, again := s.listed[key]; again || s.failed != nil {
		return
	}
	if len(s.listed) == maxListed {
		clear(s.listed)
	}
	s.listed[key] = struct{}{}
	s.buf.Reset()
	to := json.NewEncoder(&s.buf)
	to.SetEscapeHTML(false) // URLs have an &
	err := to.Encode(skippedLine{URL: skip.URL, Reason: skip.Reason, Detail: skip.Detail, Referrer: skip.Referrer})
	if err != nil { // no string fails to encode
		panic(fmt.Sprintf("encode a skipped URL: %v", err))
	}
	_, err = s.w.Write(s.buf.Bytes()) // in one call, so that a reader never sees half a line
	if s.fail(err); err == nil {
		s.written++
	}
}

func (s *skippedFile) fail(err error) {
	if err == nil || s.failed != nil {
		return
	}
	s.failed = cli.Cause(err)
	s.log.Warn("URLs that are left out are not listed any more; the crawl goes on", slog.String("file", s.name), slog.Any("error", s.failed))
}

// close closes the file. A nil file it leaves alone.
func (s *skippedFile) close() {
	if s != nil && s.file != nil {
		s.fail(s.file.Close())
		s.file = nil
	}
}

// summary returns, in words, how many URLs are listed and where, and the failure if there was one. It may be called once
// the crawl has ended.
func (s *skippedFile) summary() string {
	if s.name == "" {
		return ""
	}
	text := cli.Plural(s.written, "URL") + " in " + s.name
	if s.failed != nil {
		text += fmt.Sprintf(", then %v", s.failed)
	}
	return text
}
