package mirror

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/treadlight/crawl/cmd/crawl/internal/mirror/rewrite"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/internal/store/filename"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// entry is what the copy knows of a URL. During the crawl an entry in the index is not changed but replaced.
type entry struct {
	URL string `json:"u"`
	// File is the file of the copy, with slashes. Empty means none. It stays when a later request fails.
	File     string       `json:"f,omitempty"`
	Kind     rewrite.Kind `json:"k,omitempty"`
	Type     string       `json:"t,omitempty"`
	Charset  string       `json:"c,omitempty"`  // of the response header
	Size     int64        `json:"n,omitempty"`  // of the received bytes
	Sum      uint64       `json:"h,omitempty"`  // hash of the received bytes
	At       int64        `json:"at,omitempty"` // offset in the pack, if packed
	Written  uint64       `json:"w,omitempty"`  // hash of the written file, if packed; zero means not written
	ETag     string       `json:"etag,omitempty"`
	Modified string       `json:"modified,omitempty"`
	// Redirect is where the URL redirects to, with a fragment. Or it is a URL of the same directory that has the same
	// bytes.
	Redirect string `json:"to,omitempty"`
	// Round is the last round in which the URL was answered or failed. Status and Err are those of that round.
	Round  int    `json:"r"`
	Status int    `json:"s,omitempty"`
	Err    string `json:"err,omitempty"`
	From   string `json:"from,omitempty"` // a page that links to it, if it failed
	Change string `json:"ch,omitempty"`   // the change since the round before

	u      canonical.URL
	places int // bytes in the pack behind the document that hold its places; zero: none from this run
}

// packed reports whether the received bytes are in the pack, and the file is made from them.
func (e *entry) packed() bool { return e.Kind != rewrite.Opaque }

// forget resets what the entry knows of received bytes and their file.
func (e *entry) forget() {
	*e = entry{URL: e.URL, Redirect: e.Redirect, Round: e.Round, Status: e.Status, Err: e.Err, From: e.From, Change: e.Change, u: e.u}
}

// head is the first line of the journal.
type head struct {
	Format int      `json:"format"`
	Round  int      `json:"round"`
	Pack   int      `json:"pack"` // the number of the pack's file
	Seeds  []string `json:"seeds"`
	Open   bool     `json:"open,omitempty"`  // the round is not settled
	Full   bool     `json:"full,omitempty"`  // but it has seen everything
	Stale  []string `json:"stale,omitempty"` // files without a URL, to be removed once no link leads to them
}

// index is what is known of all URLs: in memory, and in a journal to which each change is appended. It is safe for
// concurrent use.
type index struct {
	dir string // of the copy

	mu      sync.Mutex
	head    head
	entries map[string]*entry
	claims  map[string]string // folded names: of files, with their URLs, and of directories, with ""
	stale   map[string]bool
	journal *os.File
	lines   *bufio.Writer // to the journal
}

const (
	stateDir    = ".crawl" // in the copy, for files that nobody opens
	journalFile = "map.jsonl"
	format      = 1
)

// openIndex reads the journal of a copy, or creates it, and opens it for changes. It cuts off a last line that a kill
// has left unfinished.
func openIndex(dir string) (_ *index, err error) {
	x := &index{dir: dir, entries: make(map[string]*entry), claims: make(map[string]string), stale: make(map[string]bool)}
	name := filepath.Join(dir, stateDir, journalFile)
	if x.journal, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	x.lines = bufio.NewWriterSize(x.journal, 1<<16)
	r, end := bufio.NewReaderSize(x.journal, 1<<16), int64(0)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return x, x.journal.Truncate(end)
		}
		end += int64(len(line))
		if err == nil {
			err = x.read(line)
		}
		if err != nil {
			return x, fmt.Errorf("%s, line %d: %w: restore it, or remove %s, after which all is fetched anew", name, n, err, filepath.Join(dir, stateDir))
		}
	}
}

// read adds what a line of the journal says.
func (x *index) read(line []byte) (err error) {
	var h head
	var e entry
	if bytes.HasPrefix(line, []byte(`{"format"`)) {
		err = json.Unmarshal(line, &h)
	} else if err = json.Unmarshal(line, &e); err == nil {
		e.u, err = canonical.Parse(e.URL)
	}
	for _, file := range append(h.Stale, e.File) {
		if file != "" && !filepath.IsLocal(filepath.FromSlash(file)) {
			err = fmt.Errorf("%q is not in the copy", file)
		}
	}
	switch {
	case err != nil:
	case e.Size < 0 || e.At < 0:
		err = fmt.Errorf("%s has a negative size or place", e.URL)
	case e.URL != "":
		x.set(&e)
	case h.Format != format:
		err = fmt.Errorf("it is of another version of the program (%d)", h.Format)
	default:
		x.head = h
		for _, file := range h.Stale {
			x.stale[file] = true
		}
	}
	return err
}

// set makes e the entry of its URL.
func (x *index) set(e *entry) {
	if old := x.entries[e.URL]; old != nil && old.File != e.File {
		x.drop(old)
	}
	if x.entries[e.URL] = e; e.File != "" {
		delete(x.stale, e.File)
		x.claim(e.File, e.URL)
	}
}

// drop removes a URL; settle removes its file.
func (x *index) drop(e *entry) {
	if delete(x.entries, e.URL); e.File != "" {
		delete(x.claims, filename.Fold(e.File))
		x.stale[e.File] = true
	}
}

// claim reserves a name for a URL, and the names of its directories.
func (x *index) claim(file, url string) {
	x.claims[filename.Fold(file)] = url
	for d := path.Dir(file); d != "."; d = path.Dir(d) {
		f := filename.Fold(d)
		if _, known := x.claims[f]; known {
			return
		}
		x.claims[f] = ""
	}
}

// compact writes a new journal without outdated lines, and opens it for changes.
func (x *index) compact() error {
	if err := x.close(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	name := filepath.Join(x.dir, stateDir, journalFile)
	x.head.Stale = slices.Sorted(maps.Keys(x.stale))
	err := atomicfile.Replace(name, 0o600, func(w io.Writer) error {
		x.lines = bufio.NewWriterSize(w, 1<<16)
		err := x.add(x.head)
		for _, key := range slices.Sorted(maps.Keys(x.entries)) {
			err = cmp.Or(err, x.add(x.entries[key]))
		}
		return cmp.Or(err, x.lines.Flush())
	})
	if err == nil {
		x.journal, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o600)
	}
	x.lines.Reset(x.journal)
	return err
}

// close writes pending lines and closes the journal.
func (x *index) close() error {
	if x.journal == nil {
		return nil
	}
	err := errors.Join(x.flush(), x.journal.Close())
	x.journal = nil
	return err
}

// put makes e the entry of its URL. The journal has it after flush.
func (x *index) put(e *entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.set(e)
	return x.add(e)
}

// add appends a line to the journal.
func (x *index) add(what any) error {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = x.lines.Write(append(line, '\n'))
	}
	return err
}

// flush writes pending lines to the journal. After an error nothing more is written, since half a line may be there.
func (x *index) flush() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lines.Flush()
}

// get returns the entry of a URL, or the zero entry if it is unknown.
func (x *index) get(url string) entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.entries[url]; e != nil {
		return *e
	}
	return entry{}
}

// all returns the entries in the order of their URLs.
func (x *index) all() []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Values(x.entries), func(a, b *entry) int { return strings.Compare(a.URL, b.URL) })
}

// maxHops bounds chains of redirects.
const maxHops = 20

// target returns the entry with the file to which a link to url leads, and the fragment that a redirect adds. It
// returns nil if there is no such file. If url redirects to what the copy does not have, its own earlier copy counts,
// if there is one.
func (x *index) target(url string) (had *entry, fragment string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for range maxHops {
		e := x.entries[url]
		if e == nil {
			break
		}
		if e.File != "" && (had == nil || e.Redirect == "") {
			had = e
		}
		if e.Redirect == "" {
			if e.File != "" {
				return e, fragment
			}
			break
		}
		to, f, _ := strings.Cut(e.Redirect, "#")
		if url = to; f != "" {
			fragment = "#" + f
		}
	}
	return had, ""
}

// assign chooses the file for a received body. It is the file that the URL had, unless the type has changed; otherwise
// that of nameOf, with a hash of the URL if the name belongs to another URL or a directory. If that other URL is in the
// same directory and has the same bytes, assign returns the other URL instead of a file.
func (x *index) assign(e *entry) (file, same string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.entries[e.URL]; old != nil && old.File != "" && old.Type == e.Type {
		return old.File, ""
	}
	parts := strings.Split(nameOf(e.u, e.Type), "/")
	for i := range parts[1:] { // a directory may have the name of a file
		if x.claims[filename.Fold(strings.Join(parts[:i+1], "/"))] != "" {
			parts[i] += "~d"
		}
	}
	name := strings.Join(parts, "/")
	if owner, taken := x.claims[filename.Fold(name)]; taken && owner != e.URL {
		if o := x.entries[owner]; o != nil && o.Sum == e.Sum && o.Size == e.Size && o.Type == e.Type && o.u.Dir() == e.u.Dir() && o.u.Scheme() == e.u.Scheme() {
			return "", owner
		}
		ext := path.Ext(name)
		name = strings.TrimSuffix(name, ext) + "~" + filename.Hash(e.URL) + ext
	}
	x.claim(name, e.URL)
	return name, ""
}
