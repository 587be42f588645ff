package warc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// indexLine begins a line of an index: a key, a time to the second, and an object.
var indexLine = regexp.MustCompile(`^\S+ \d{14} \{`)

// IsIndexLine reports whether a line begins as those of an index do.
func IsIndexLine(line []byte) bool { return indexLine.Match(line) }

// revisitMime is the media type of a revisit in an index.
const revisitMime = "warc/revisit"

// entry is a line of an index.
type entry struct {
	URL      string `json:"url"`
	Mime     string `json:"mime,omitempty"`
	Status   string `json:"status,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Length   string `json:"length"`
	Offset   string `json:"offset"`
	Filename string `json:"filename"`
}

// line is the line of a record's entry; head is that of its HTTP message, and of its date
// the seconds count.
func line(kind, uri, date, digest string, head []byte, offset, length int64, file string) string {
	uri = oneLine(uri)
	e := entry{
		URL: uri, Length: strconv.FormatInt(length, 10), Offset: strconv.FormatInt(offset, 10), Filename: file,
		Digest: strings.TrimPrefix(digest, "sha1:"),
	}
	e.Status, e.Mime = statusAndMime(head)
	if kind == typeRevisit {
		e.Mime = revisitMime
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e) // texts cannot fail; it ends the line
	digits := strings.Map(func(c rune) rune {
		if c < '0' || c > '9' {
			return -1
		}
		return c
	}, date)
	return surt(uri) + " " + digits[:min(14, len(digits))] + " " + b.String()
}

// statusAndMime reads the status and the media type, without parameters, out of the header
// of an answer. Of a header that is spoilt it returns what there is.
func statusAndMime(head []byte) (status, mime string) {
	first, rest, _ := bytes.Cut(head, []byte("\n"))
	if parts := strings.Fields(string(first)); len(parts) > 1 && len(parts[1]) == 3 {
		status = parts[1]
	}
	for l := range bytes.Lines(rest) {
		name, value, ok := bytes.Cut(l, []byte(":"))
		if ok && strings.EqualFold(string(name), "content-type") {
			value, _, _ = bytes.Cut(value, []byte(";"))
			return status, strings.TrimSpace(string(value))
		}
	}
	return status, ""
}

// writeIndex writes the lines, sorted by their bytes, and has the disk take them. Until the
// archive has its name a file that is there is of a run that was killed here.
func writeIndex(path string, lines []string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	slices.Sort(lines)
	w := bufio.NewWriter(f)
	for _, l := range lines {
		_, _ = w.WriteString(l) // the error stays until Flush
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Sync()
}
