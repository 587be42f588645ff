package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"os"
	"regexp"

	"github.com/treadlight/crawl/internal/records/sink"
)

// The kinds of files that callers of FileKind compare with.
const (
	SeedsKind   = "it is a list of URLs, for --input-file"
	SkippedKind = "it has what a crawl left out, as output.skipped writes it: no command reads it, but 'jq -r .reason FILE | sort | uniq -c' counts the reasons, and 'crawl explain URL' says more of one URL"
)

// kinds lists the kinds of files that this program reads or writes, by a pattern of how they begin. The first one that
// matches counts.
var kinds = [][2]string{
	{`WARC/`, "it is an archive (WARC), as --warc and --output NAME.warc.gz write it: show it with 'crawl read'"},
	{"SQLite format 3\x00", "it is a database"},
	{"[^\n]*\x00", "it is no text"},
	{`\{.*"elapsed_seconds":`, "it has the states of a crawl, as --stats writes them: show it with 'crawl stats'"},
	{`\{"time":.*"cause":`, "it has the events of a crawl, as output.events writes them"},
	{`\{"url":"[^"]*","reason":"[^"]*","detail":`, SkippedKind},
	{`\{"url":.*"fetched_at":`, "it has the records of a crawl, as --output writes them"},
	{`\{`, "it is JSON of another kind"},
	{`\S+ \d{14} \{`, "it is the index of an archive (CDXJ), as --warc writes it"},
	{`https?://\S+\s`, SeedsKind},
}

// FileKind says in words what kind of file path is, for the message that another kind was wanted, and how to use it. It
// returns "" if the beginning of the file does not tell.
func FileKind(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	const peek = 64 << 10            // longer than the first line of nearly any record
	head, _ := bufio.NewReaderSize(f, peek).Peek(peek)
	return kindOf(head)
}

// CheckSkipped returns an error if path is a list of what a crawl left out, for commands that read records: its lines have
// URLs too. It does not look into a pipe, which would lose what is read.
func CheckSkipped(path string) error {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || FileKind(path) != SkippedKind {
		return nil //nolint:nilerr // whoever reads the file reports it
	}
	return IOf("%s has no records of a crawl: %s", path, SkippedKind)
}

func kindOf(head []byte) string {
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		if gz, err := gzip.NewReader(bytes.NewReader(head)); err == nil {
			start, _ := bufio.NewReader(gz).Peek(len("WARC/"))
			if string(start) == "WARC/" {
				return kindOf(start)
			}
		}
		return "it is compressed with gzip"
	}
	if table := sink.ByStart(head); table.Separator != 0 {
		return "it has the records of a crawl, as --format " + string(table.Format) + " writes them"
	}
	for _, kind := range kinds {
		if regexp.MustCompile(`^\s*` + kind[0]).Match(head) {
			return kind[1]
		}
	}
	return ""
}

// SameFile reports whether two paths lead to the same file or directory. It is false for standard streams and devices,
// which may be both input and output.
func SameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && (x.Mode().IsRegular() || x.IsDir()) && os.SameFile(x, y)
}
