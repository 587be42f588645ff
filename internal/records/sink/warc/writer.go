// Package warc writes the exchanges of a crawl as web archives: WARC/1.1 files (ISO 28500:2017), which programs such as
// pywb replay.
//
// [Open] opens a directory, or a single file, and returns a [*Writer], a sink that can be resumed. It writes the
// records of a crawl that have an Exchange and ignores the others. [Reader] reads a file back, strictly.
//
// # What is written
//
// A file begins with a warcinfo record: the program, its settings, and how many bytes of the series precede the file.
// Each exchange is three records that refer to each other: the response as the server sent it, byte by byte; the
// request; and metadata, which say where the URL was found, how long the exchange took, and which links the page has.
// In place of the response there is a revisit, with the header of the response alone, if the payload is that of an
// earlier response or if the server says that nothing has changed (304). A payload is the body without chunked framing,
// but as compressed as it was sent.
//
// # Files
//
// Each record is a gzip member of its own. Files are named PREFIX-TIME-SERIAL-HOST.warc.gz, followed by .open until
// they are complete. A complete file has an index beside it, NAME.cdxj. It is sorted and has a line for each response
// and revisit: the URL as a sort-friendly key, the time, and, as JSON, where the record is. When a file has reached its
// size, which its last exchange may exceed, the next one begins. A single file is a series of one that never ends,
// plain or compressed according to its name, without an index.
//
// # The invariant
//
// The files of a directory are one series. A [record.Position] counts the bytes of all of them; it is always between
// two exchanges. Only whole exchanges are written to a file, and if the system writes only part of one, that part is
// cut off. After a crash, files are whole except for the end of the last one. Resume truncates the series to the
// position, however many files were begun behind it, and Append to the end of the last whole exchange.
//
// The digests of payloads are remembered up to a bound; those not found for longest are forgotten. A resumed crawl
// knows those of its earlier files from their indexes. A forgotten payload is stored again in full.
//
// A Writer must not be used by two goroutines at once, except for Sync.
package warc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/record"
)

const (
	// DefaultMaxSize is 1 GB, the common size of archive files.
	DefaultMaxSize = 1e9
	// DefaultRemember is how many payloads are remembered: 40 MB with URLs of usual length.
	DefaultRemember = 1 << 17
	// DefaultPrefix is the beginning of the names of files.
	DefaultPrefix = "treadlight"

	// flushSize is how many bytes are collected before they are written, as in package sink.
	flushSize = 64 << 10
	// maxKept is the largest buffer that is kept after a flush; one large response may have made it larger.
	maxKept = 1 << 20
)

// Config configures how a directory is opened. The zero Config writes a new series.
type Config struct {
	// Single writes everything into one file without an index; its path is given in place of a directory. The file is
	// compressed if its name ends in .gz. Prefix, Host and MaxSize are ignored. False writes a series of files in a
	// directory.
	Single bool
	// Prefix is the beginning of the names of files: letters, digits and any of . _ -. Empty means DefaultPrefix.
	Prefix string
	// Host is the end of the names of files: the name of the machine. Empty means that names have no such part.
	Host string
	// MaxSize is the size of a file in bytes after which the next one begins. An exchange is never split. Zero means
	// DefaultMaxSize; a negative value is an error.
	MaxSize int64
	// Remember is how many payloads are remembered at a time, about 300 bytes each. Zero means DefaultRemember, a
	// negative value none.
	Remember int
	// Info is what each file says about the program that wrote it and about its settings, under the names of the
	// standard: software, robots, operator. Nil says nothing.
	Info []Field
	// Credentials keeps the credentials of requests in the archive, and makes its files readable by their owner alone.
	// False leaves out the values of such fields; files then have the mode that the user's mask permits.
	Credentials bool
	// Cookies says that the crawl sends cookies back, so that a Set-Cookie of a response is a credential: its value is
	// left out unless Credentials is set. False keeps responses as they came.
	Cookies bool
	// Redact says which header fields are credentials. Nil means those of package redact.
	Redact *redact.Redactor
	// ObeyNoArchive leaves out the request and the response of pages that say noarchive to robots; only the metadata
	// that says so is written. False archives such pages like others.
	ObeyNoArchive bool
	// Existing says what to do with existing files of this prefix. Zero refuses them.
	Existing sink.Existing
	// Position is where Resume continues, in bytes of all files, as Writer.Mark returned it. Zero means the beginning.
	Position int64
	// Records is how many exchanges precede Position. It is only added to the result of Mark.
	Records int64
	// Clock gives the time for names. Nil means the system's clock.
	Clock clock.Clock
}

var prefixForm = lazy.Regexp(`^[A-Za-z0-9._-]{1,64}$`)

// CheckPrefix returns an error for a prefix that names of files cannot begin with.
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

// Writer is the sink of a directory of archives, or of a single file.
type Writer struct {
	path  string // as it was opened
	dir   string
	cfg   Config
	enc   encoder
	known memory

	buf     bytes.Buffer // whole exchanges not written yet
	pending int64        // number of exchanges in buf
	records int64        // number of exchanges in the files
	cut     int64        // bytes that Append has cut off
	start   int64        // bytes of the series before the current file
	size    int64        // bytes of the current file
	serial  int          // number of the current file, or of the next one if there is none
	info    string       // ID of the current file's warcinfo record
	now     *file        // the current file; nil means that the next exchange begins one
	lines   []string     // lines of its index, unsorted: about 250 bytes each
	err     error        // once set, every call returns it

	mu   sync.Mutex // guards what follows from concurrent use by Sync
	file *os.File   // the open file of now
}

var _ record.Durable = (*Writer)(nil)

var errClosed = errors.New("archive is closed")

// Open opens a directory for archives, and makes it if it does not exist. The first file is made when there is
// something to write, a single file at once. Config says what happens to existing files. The error says what to do.
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
	} else if err = os.MkdirAll(path, 0o777); err == nil { // without the bits of the user's umask
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
		err = w.begin() // so that an error about its path comes before the crawl
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// removeFiles removes files, the last one first, so that a kill leaves the beginning of a series.
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

// Write writes the exchange of r, if it has one with a response. If an earlier call has failed, it returns that error.
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

// end returns the size that the current file will have when buf is written.
func (w *Writer) end() int64 { return w.size + int64(w.buf.Len()) }

// begin makes the next file. Its first record is buffered and written with the others.
func (w *Writer) begin() error {
	now := w.cfg.Clock.Now()
	f := &file{name: nameOf(w.cfg.Prefix, w.cfg.Host, w.serial, now), open: true, serial: w.serial}
	exclusive := os.O_EXCL
	if w.cfg.Single {
		f.name, f.single, exclusive = filepath.Base(w.path), true, 0 // an empty file may exist
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
		said := *r // write only the directives of the page
		said.Links, said.Resources = nil, nil
		x.Record = &said
		return w.enc.put(&w.buf, x.about(""))
	}
	request := r.Exchange.Request
	if !w.cfg.Credentials {
		request = maskFields(request, w.cfg.Redact.SecretHeader)
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

// Flush writes the buffered exchanges to the file, in one call.
func (w *Writer) Flush() error {
	if w.err != nil || w.buf.Len() == 0 {
		return w.err
	}
	n, err := w.file.Write(w.buf.Bytes())
	if err == nil && n < w.buf.Len() {
		err = io.ErrShortWrite
	}
	if err != nil {
		// The file ends with an incomplete exchange, or with some that do not count as written.
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

// finish completes the current file: the file is synced, then its index is written and synced, and then the file gets
// its final name.
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

// fail stores the error that ends the writing, and returns it. What is in the files stays.
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

// Sync implements [record.Durable]. Files before the current one are on disk already.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	return w.file.Sync()
}

// Close flushes, completes the last file, and closes it. After an error it only closes the file, which keeps the name
// of an incomplete one, and returns the error.
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
