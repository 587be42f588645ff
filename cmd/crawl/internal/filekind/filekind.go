// Package filekind tells what a file is that was given where another was wanted.
package filekind

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/sink/warc"
)

// PeekBytes is how much of a file is looked at to tell what it is: longer than the first line of nearly any record.
const PeekBytes = 64 << 10

// Hosts is the kind of a file of --remember: of what is wrong with one, such as its version, whoever reads it knows
// more.
const Hosts = "it is a memory of hosts"

// Of says in words what a file is that was given where another was wanted, and what may be done with it; empty if
// that cannot be told.
func Of(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	head, err := bufio.NewReaderSize(f, PeekBytes).Peek(PeekBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return OfStart(head)
}

// OfStart is kindOfFile for the beginning of a file.
func OfStart(head []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
	first := strings.TrimSpace(string(line))
	spec := sink.ByStart(head)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return kindOfCompressed(head)
	case spec.Format == sink.WARC:
		return spec.Kind
	case bytes.HasPrefix(head, []byte("SQLite format 3\x00")):
		return "it is a database"
	case bytes.IndexByte(head, 0) >= 0:
		return "it is no text"
	case strings.HasPrefix(first, "{"):
		return kindOfObject(first)
	case warc.IsIndexLine([]byte(first)):
		return "it is the index of an archive (CDXJ), as --warc writes it"
	case spec.Format == sink.URLs && crawl.Check(first) != nil:
		return ""
	}
	return spec.Kind
}

// kindOfCompressed looks into a file for what would be its first bytes.
func kindOfCompressed(head []byte) string {
	gz, err := gzip.NewReader(bytes.NewReader(head))
	if err == nil {
		var start [5]byte
		if _, err := io.ReadFull(gz, start[:]); err == nil {
			if spec := sink.ByStart(start[:]); spec.Format == sink.WARC {
				return spec.Kind
			}
		}
	}
	return "it is compressed with gzip"
}

// kindOfObject tells the lines of JSON that this program writes by the field that none of the others have. A line may
// be cut, so it is not parsed to its end.
func kindOfObject(line string) string {
	fields := fieldsOf(line)
	switch {
	case fields["format"]:
		return Hosts
	case fields["elapsed_seconds"]:
		return "it has the states of a crawl, as --stats writes them: show it with 'crawl stats'"
	case fields["cause"]:
		return "it has the events of a crawl, as output.events writes them"
	case fields["fetched_at"]:
		spec := sink.JSONL.Spec()
		return spec.Kind
	}
	return "it is JSON of another kind"
}

// fieldsOf are the names of an object's fields, as far as it can be read.
func fieldsOf(object string) map[string]bool {
	fields := make(map[string]bool)
	dec := json.NewDecoder(strings.NewReader(object))
	if _, err := dec.Token(); err != nil { // the brace
		return fields
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			break
		}
		var value json.RawMessage
		if s, ok := name.(string); ok {
			fields[s] = true
		}
		if dec.Decode(&value) != nil {
			break
		}
	}
	return fields
}
