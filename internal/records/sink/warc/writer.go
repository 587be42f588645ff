// Package warc writes the exchanges of a crawl as web archives: WARC/1.1 files (ISO 28500:2017) that browsers of the
// past, such as pywb, replay.
//
// [Open] opens a directory, or a single file, and gives a [*Writer], which is a sink that may be resumed. It takes
// the records of a crawl that have an Exchange and leaves the others out. [Reader] reads a file back, strictly.
//
// # What is written
//
// A file begins with a warcinfo record: the program, its settings, and how many bytes of the series come before it.
// Each exchange is three records that name each other: the response as the server sent it, byte by byte, the request,
// and metadata: where the URL was found, how long it took, and the links of the page. In place of a response there is
// a revisit, with the header of the answer alone, if its payload is that of an earlier response, or if the server
// says that nothing has changed (304). A payload is the body without the framing of chunks and with its compression.
//
// # Files
//
// A record is a gzip member of its own. Files are named PREFIX-TIME-SERIAL-HOST.warc.gz, with .open behind that until
// they are complete. A complete file has an index beside it, NAME.cdxj, sorted, with a line for each response and
// revisit: the URL as a sort-friendly key, the time, and as JSON where the record is. When a file has its size, which
// the last exchange in it may exceed, the next one begins. A single file is a series of one that never ends, plain or
// compressed as its name says, without an index.
//
// # The invariant
//
// The files of a directory are one series. A [record.Position] counts the bytes of all of them; it lies between two
// exchanges. Only whole exchanges are handed to a file, and what the system takes of one only in part is cut off.
// After a crash, files are whole but for the end of the last one; Resume cuts the series back to the position,
// however many files have been begun behind it, and Append to the end of the last whole exchange.
//
// The digests of payloads are remembered up to a bound, those not met for longest are forgotten; a resumed crawl
// knows those of its earlier files by their indexes. What is forgotten is stored again in full.
//
// A Writer must not be used by two goroutines at once, but for Sync.
package warc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/record"
)

const (
	// DefaultMaxSize is 1 GB, the size that archives commonly are cut at.
	DefaultMaxSize = 1e9
	// DefaultRemember is payloads that are remembered: 40 MB with URLs of the usual length.
	DefaultRemember = 1 << 17
	// DefaultPrefix begins the names of files.
	DefaultPrefix = "treadlight"

	// flushSize is what gathers before it is written, as in package sink.
	flushSize = 64 << 10
	// maxKept is the buffer that survives a flush; one large answer may have made it larger.
	maxKept = 1 << 20
)

// Config is how a directory is opened. The zero value writes a new series.
type Config struct {
	// Single makes one file of all, whose path is given in place of a directory, and which has no index. It is compressed
	// if its name ends in .gz. Prefix, Host and MaxSize do not count then. False: a series of files in a directory.
	Single bool
	// Prefix begins the names of files: letters, digits and any of . _ -. Empty is DefaultPrefix.
	Prefix string
	// Host ends the names of files: what the machine is called. Empty leaves it out.
	Host string
	// MaxSize is the bytes of a file after which the next one begins. An exchange is never cut in two. Zero is
	// DefaultMaxSize; one below zero is refused.
	MaxSize int64
	// Remember is how many payloads are known at a time; about 300 bytes each. Zero is DefaultRemember, below zero none.
	Remember int
	// Info is what each file says of the program that wrote it and of its settings, in the names of the standard:
	// software, robots, operator. Nil says nothing.
	Info []Field
	// Credentials keeps what requests hold of them, in files for their owner alone. False: the values of such fields
	// are left out, and files are as the user's mask has them.
	Credentials bool
	// Cookies says that the crawl sends back what answers set, so that their Set-Cookie opens something: unless there
	// are Credentials, its values are left out. False: answers are as they came.
	Cookies bool
	// Redact says which fields are credentials. Nil is those of package redact.
	Redact *redact.Redactor
	// ObeyNoArchive leaves out what is sent and what comes of pages that say noarchive to robots, but for the
	// metadata that says so. False: they are archived with it.
	ObeyNoArchive bool
	// Existing is what to do with files of this prefix. Zero refuses them.
	Existing sink.Existing
	// Position is where Resume goes on, in bytes of all files: what Writer.Mark told. Zero is the beginning.
	Position int64
	// Records is how many exchanges are before Position. It is only passed on, to Mark.
	Records int64
	// Clock tells the time for names. Nil is the system's.
	Clock clock.Clock
}

var prefixForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) })

// CheckPrefix reports a prefix that the names of files cannot begin with.
func CheckPrefix(s string) error {
	if !prefixForm().MatchString(s) || s[0] == '-' || s[0] == '.' {
		return fmt.Errorf("%.80q cannot begin the name of a file; give up to 64 letters, digits and . _ -, a letter or digit first", s)
	}
	return nil
}

func (c Config) withDefaults() (Config, error) {
	c.Prefix, c.MaxSize = cmp.Or(c.Prefix, DefaultPrefix), cmp.Or(c.MaxSize, DefaultMaxSize)
	c.Remember, c.Clock = cmp.Or(c.Remember, DefaultRemember), cmp.Or(c.Clock, clock.System())
	switch err := CheckPrefix(c.Prefix); {
	case err != nil:
		return c, fmt.Errorf("warc: Prefix: %w", err)
	case c.MaxSize < 0:
		return c, fmt.Errorf("warc: MaxSize is %d: give it a number of bytes", c.MaxSize)
	}
	return c, nil
}

// Writer is the sink of a directory, or of a single file.
type Writer struct {
	path  string // as it was opened
	dir   string
	cfg   Config
	enc   encoder
	known memory

	buf     bytes.Buffer // whole exchanges that are not in the file yet
	pending int64        // exchanges in buf
	records int64        // exchanges in the files
	cut     int64        // bytes that Append cut off
	start   int64        // bytes of the series before the current file
	size    int64        // of the current file
	serial  int          // of it, or of the next one if there is none
	info    string       // the ID of its warcinfo
	now     *file        // nil: the next exchange begins one
	lines   []string     // of its index, unsorted: about 250 bytes each
	err     error        // once set, for good

	mu   sync.Mutex // guards what follows, against Sync
	file *os.File   // of now
}

var _ record.Durable = (*Writer)(nil)

var errClosed = errors.New("archive is closed")

// Open opens a directory for archives and makes it if it is not there. The first file is made when there is something
// for it, a single one at once. See [Config] for what becomes of files that are there. The error says what to do.
func Open(path string, cfg Config) (*Writer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, dir: path, cfg: cfg, serial: 1}
	if w.known, err = newMemory(cfg.Remember); err != nil {
		return nil, err
	}
	var files []*file
	if cfg.Single {
		w.dir, w.enc.plain = filepath.Dir(path), !strings.HasSuffix(strings.ToLower(path), ".gz")
		files, err = single(path)
	} else if err = os.MkdirAll(path, 0o777); err == nil { // less what the user's mask forbids
		files, err = list(path, cfg.Prefix)
	}
	switch {
	case err != nil:
		return nil, err
	case cfg.Existing == sink.Resume:
		err = w.resume(files)
	case cfg.Existing == sink.Append:
		if w.cfg.Position, w.cut, err = w.endOfLastExchange(files); err == nil {
			err = w.resume(files)
		}
	case cfg.Existing == sink.Overwrite:
		err = w.removeFiles(files)
	case len(files) > 0 && cfg.Single:
		err = fmt.Errorf("%s exists and is not empty: add --overwrite to replace it, or choose another file", path)
	case len(files) > 0:
		err = fmt.Errorf("%s holds archives, %s first: add --overwrite to replace them, or choose another directory", path, files[0].name)
	}
	if err == nil && cfg.Single && w.now == nil {
		err = w.begin() // what is wrong with its place is told before the crawl
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// removeFiles removes files, the last one first: what a kill leaves is the beginning of a series.
func (w *Writer) removeFiles(files []*file) error {
	for _, f := range slices.Backward(files) {
		if err := f.remove(w.dir); err != nil {
			return err
		}
	}
	if len(files) > 0 {
		atomicfile.SyncDir(w.dir)
	}
	return nil
}

// Write takes the exchange of r, if it has one with an answer. It fails if this or an earlier call did.
func (w *Writer) Write(r *record.Record) error {
	if w.err != nil || r.Exchange == nil || len(r.Exchange.Response) == 0 {
		return w.err
	}
	if w.now != nil && w.end() >= w.cfg.MaxSize && !w.cfg.Single {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.now == nil {
		if err := w.begin(); err != nil {
			return w.fail(err)
		}
	}
	if err := w.exchange(r); err != nil {
		return w.fail(err)
	}
	w.pending++
	if w.buf.Len() < flushSize {
		return nil
	}
	return w.Flush()
}

// end is the size that the current file has with what is to be written to it.
func (w *Writer) end() int64 { return w.size + int64(w.buf.Len()) }

// begin makes the next file. Its first record waits to be written with the others.
func (w *Writer) begin() error {
	now := w.cfg.Clock.Now()
	f := &file{name: nameOf(w.cfg.Prefix, w.cfg.Host, w.serial, now), open: true, serial: w.serial}
	exclusive := os.O_EXCL
	if w.cfg.Single {
		f.name, f.single, exclusive = filepath.Base(w.path), true, 0 // it may be there, empty
	}
	out, err := os.OpenFile(f.path(w.dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND|exclusive, w.mode())
	if err != nil {
		return err
	}
	atomicfile.SyncDir(w.dir)
	w.attach(f, out)
	w.info = newID()
	about := append(slices.Clone(w.cfg.Info),
		Field{"format", "WARC File Format 1.1"},
		Field{"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
		Field{seriesOffset, strconv.FormatInt(w.start+w.size, 10)})
	return w.enc.put(&w.buf, &warcRecord{
		kind: typeInfo, id: w.info, date: dateOf(now), media: "application/warc-fields",
		fields: []Field{{"WARC-Filename", f.name}}, block: [][]byte{appendFields(nil, about)},
	})
}

func (w *Writer) mode() os.FileMode {
	if w.cfg.Credentials {
		return 0o600
	}
	return 0o644
}

func (w *Writer) attach(f *file, out *os.File) {
	w.now = f
	w.mu.Lock()
	defer w.mu.Unlock()
	w.file = out
}

func (w *Writer) exchange(r *record.Record) error {
	if w.cfg.Cookies && !w.cfg.Credentials {
		shown, answer := *r, *r.Exchange
		answer.Response = maskFields(answer.Response, func(name string) bool { return strings.EqualFold(name, "Set-Cookie") })
		shown.Exchange, r = &answer, &shown
	}
	x := &exchange{Record: r, head: headerLength(r.Exchange.Response), date: dateOf(r.FetchedAt), info: w.info}
	if w.cfg.ObeyNoArchive && slices.Contains(x.Directives, "noarchive") {
		said := *r // and of the page only that
		said.Links, said.Resources = nil, nil
		x.Record = &said
		return w.enc.put(&w.buf, x.about(""))
	}
	request := r.Exchange.Request
	if !w.cfg.Credentials {
		request = maskCredentials(request, w.cfg.Redact)
	}
	answer, digest, fresh := x.answer(w.known)
	offset := w.end()
	if err := w.enc.put(&w.buf, answer); err != nil {
		return err
	}
	if !w.cfg.Single {
		payload := Record{Fields: answer.fields}
		w.lines = append(w.lines, line(answer.kind, r.URL, x.date, payload.Get("WARC-Payload-Digest"),
			r.Exchange.Response[:x.head], offset, w.end()-offset, w.now.name))
	}
	if fresh {
		w.known.add(digest, original{uri: r.URL, date: x.date, id: answer.id})
	}
	if len(request) > 0 {
		if err := w.enc.put(&w.buf, x.beside(typeRequest, "application/http;msgtype=request", answer.id, request)); err != nil {
			return err
		}
	}
	return w.enc.put(&w.buf, x.about(answer.id))
}

// Flush hands what is there to the system, in one piece.
func (w *Writer) Flush() error {
	if w.err != nil || w.buf.Len() == 0 {
		return w.err
	}
	n, err := w.file.Write(w.buf.Bytes())
	if err == nil && n < w.buf.Len() {
		err = io.ErrShortWrite
	}
	if err != nil {
		// The file ends in an exchange that is not whole, or in some that nobody was told of.
		if e := w.file.Truncate(w.size); e != nil {
			err = errors.Join(err, fmt.Errorf("cut off the partial record: %w", e))
		}
		return w.fail(err)
	}
	w.size += int64(n)
	w.records += w.pending
	w.pending = 0
	if w.buf.Reset(); w.buf.Cap() > maxKept {
		w.buf = bytes.Buffer{}
	}
	return nil
}

// finish completes the current file: it is on its disk, then its index is, and then it gets its name.
func (w *Writer) finish() error {
	if err := w.Flush(); err != nil {
		return err
	}
	if err := w.complete(); err != nil {
		return w.fail(err)
	}
	w.start += w.size
	w.size, w.now, w.lines = 0, nil, nil
	w.serial++
	return nil
}

func (w *Writer) complete() error {
	w.mu.Lock()
	err := errors.Join(w.file.Sync(), w.file.Close())
	w.file = nil
	w.mu.Unlock()
	if err != nil || w.cfg.Single {
		return err
	}
	if err := writeIndex(w.now.index(w.dir), w.lines); err != nil {
		return err
	}
	from := w.now.path(w.dir)
	w.now.open = false
	if err := os.Rename(from, w.now.path(w.dir)); err != nil {
		return err
	}
	atomicfile.SyncDir(w.dir)
	return nil
}

// fail remembers what ended the writing. What is in the files stays.
func (w *Writer) fail(err error) error {
	path := w.dir
	if w.now != nil {
		path = w.now.path(w.dir)
	}
	w.buf, w.pending = bytes.Buffer{}, 0
	w.err = &sink.WriteError{Path: path, Records: w.records, Bytes: w.start + w.size, Err: err}
	return w.err
}

// Mark implements [record.Durable]. Path is the directory, or the single file.
func (w *Writer) Mark() record.Position {
	return record.Position{Path: w.path, Format: string(sink.WARC), Bytes: w.start + w.size, Records: w.cfg.Records + w.records}
}

// Sync implements [record.Durable]. Files before the current one are on their disk already.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	return w.file.Sync()
}

// Close flushes, completes the last file, and closes it. After an error it only closes the file, which keeps the name
// of one that is not complete, and returns the error.
func (w *Writer) Close() error {
	if errors.Is(w.err, errClosed) {
		return nil
	}
	err := w.err
	if err == nil && w.now != nil {
		err = w.finish()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
		w.file = nil
	}
	w.err = errClosed
	return err
}
