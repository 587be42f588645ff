package mirror

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/treadlight/crawl/cmd/crawl/internal/mirror/rewrite"
	"github.com/treadlight/crawl/internal/store/atomicfile"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// entry is what the copy knows of a URL. One that is in the index is not changed: another one takes its place.
type entry struct {
	URL string `json:"u"`
	// File is where its copy is, by slashes; empty: there is none. It stays when a later request fails.
	File     string       `json:"f,omitempty"`
	Kind     rewrite.Kind `json:"k,omitempty"`
	Type     string       `json:"t,omitempty"`
	Charset  string       `json:"c,omitempty"`  // of the header
	Size     int64        `json:"n,omitempty"`  // of what came
	Sum      uint64       `json:"h,omitempty"`  // of what came
	At       int64        `json:"at,omitempty"` // where the pack has it, if it is a page
	Written  uint64       `json:"w,omitempty"`  // of what was written of it; zero: nothing
	ETag     string       `json:"etag,omitempty"`
	Modified string       `json:"modified,omitempty"`
	// Redirect is where it leads, with a fragment, or the URL of the same directory that has the same bytes.
	Redirect string `json:"to,omitempty"`
	// Round is the last in which it was answered, or failed; Status and Err are of that.
	Round  int    `json:"r"`
	Status int    `json:"s,omitempty"`
	Err    string `json:"err,omitempty"`
	From   string `json:"from,omitempty"` // who has a link to it, if it failed
	Change string `json:"ch,omitempty"`   // how it differs from the round before

	u      canonical.URL
	places int // how many bytes behind it in the pack have its places, in this run
}

// packed reports whether what came is in the pack, and its file is made of that.
func (e *entry) packed() bool { return e.Kind != rewrite.Opaque }

// forget leaves nothing of what came.
func (e *entry) forget() {
	*e = entry{URL: e.URL, Redirect: e.Redirect, Round: e.Round, Status: e.Status, Err: e.Err, From: e.From, Change: e.Change, u: e.u}
}

// head is the first line of the journal.
type head struct {
	Format int      `json:"format"`
	Round  int      `json:"round"`
	Pack   int      `json:"pack"` // the number of the file
	Seeds  []string `json:"seeds"`
	Open   bool     `json:"open,omitempty"`  // the round is not settled
	Full   bool     `json:"full,omitempty"`  // but it has seen all there is
	Stale  []string `json:"stale,omitempty"` // files that nothing has any more, to be removed when nothing leads to them
}

// index is what is known of all URLs: in memory, and in a journal to which each change is added. It is safe for
// concurrent use.
type index struct {
	dir string // of the copy

	mu      sync.Mutex
	head    head
	entries map[string]*entry
	claims  map[string]string // folded names of files, with their URLs, and of directories, with ""
	stale   map[string]bool
	journal *os.File
	lines   *bufio.Writer // to the journal
}

const (
	stateDir    = ".crawl" // in the copy, for what is not to be opened
	journalFile = "map.jsonl"
	format      = 1
)

// openIndex reads the journal of a copy, if there is one. A last line that a kill has cut off is left out.
func openIndex(dir string) (*index, error) {
	x := &index{dir: dir, entries: make(map[string]*entry), claims: make(map[string]string), stale: make(map[string]bool)}
	name := filepath.Join(dir, stateDir, journalFile)
	f, err := os.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return x, err
	}
	defer func() { _ = f.Close() }() // it was only read
	r := bufio.NewReaderSize(f, 1<<16)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return x, nil
		}
		if err == nil {
			err = x.read(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w: restore it, or remove %s, after which all is fetched anew", name, n, err, filepath.Join(dir, stateDir))
		}
	}
}

// read takes in a line.
func (x *index) read(line []byte) (err error) {
	var e struct {
		entry
		Shared bool `json:"shared"` // by earlier versions of the program: it is fetched again
	}
	var h head
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
	case e.URL == "" && h.Format != format:
		err = fmt.Errorf("it is of another version of the program (%d)", h.Format)
	case e.URL == "":
		x.head = h
		for _, file := range h.Stale {
			x.stale[file] = true
		}
	case e.Size < 0 || e.At < 0:
		err = fmt.Errorf("%s has a negative size or place", e.URL)
	case !e.Shared:
		x.set(&e.entry)
	}
	return err
}

// set has an entry be that of its URL.
func (x *index) set(e *entry) {
	if old := x.entries[e.URL]; old != nil && old.File != e.File {
		x.drop(old)
	}
	if x.entries[e.URL] = e; e.File != "" {
		delete(x.stale, e.File)
		x.claim(e.File, e.URL)
	}
}

// drop leaves nothing of a URL; its file is removed at the end.
func (x *index) drop(e *entry) {
	if delete(x.entries, e.URL); e.File != "" {
		delete(x.claims, folded(e.File))
		x.stale[e.File] = true
	}
}

// claim takes a name for a URL, and those of its directories.
func (x *index) claim(file, url string) {
	x.claims[folded(file)] = url
	for d := path.Dir(file); d != "."; d = path.Dir(d) {
		f := folded(d)
		if _, known := x.claims[f]; known {
			return
		}
		x.claims[f] = ""
	}
}

// compact writes the journal anew, and opens it for changes.
func (x *index) compact() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.end(); err != nil {
		return err
	}
	name := filepath.Join(x.dir, stateDir, journalFile)
	x.head.Stale = slices.Sorted(maps.Keys(x.stale))
	err := atomicfile.Replace(name, 0o600, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<16)
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		err := enc.Encode(x.head)
		for _, key := range slices.Sorted(maps.Keys(x.entries)) {
			err = cmp.Or(err, enc.Encode(x.entries[key]))
		}
		return cmp.Or(err, b.Flush())
	})
	if err == nil {
		x.journal, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o600)
		x.lines = bufio.NewWriterSize(x.journal, 1<<16)
	}
	return err
}

// close closes the journal.
func (x *index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.end()
}

func (x *index) end() error {
	if x.journal == nil {
		return nil
	}
	err := errors.Join(x.lines.Flush(), x.journal.Close())
	x.journal = nil
	return err
}

// put changes what is known of a URL; flush keeps it.
func (x *index) put(e *entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.set(e)
	return x.add(e)
}

// mark notes that the round has seen all there is, and keeps it.
func (x *index) mark() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.head.Full = true
	return cmp.Or(x.add(x.head), x.lines.Flush())
}

// add adds a line to the journal.
func (x *index) add(what any) error {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = x.lines.Write(append(line, '\n'))
	}
	return err
}

// flush writes what was put to the journal. After an error nothing is written any more: half a line may be there.
func (x *index) flush() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lines.Flush()
}

// get is what is known of a URL; the zero entry: nothing.
func (x *index) get(url string) entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.entries[url]; e != nil {
		return *e
	}
	return entry{}
}

// all are the entries, in the order of their URLs.
func (x *index) all() []*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Values(x.entries), func(a, b *entry) int { return strings.Compare(a.URL, b.URL) })
}

// maxHops bounds chains of redirects.
const maxHops = 20

// target is the entry with the file that a link to a URL leads to, nil if there is none, and the fragment that a redirect
// adds. A URL that redirects to what the copy does not have leads to the copy that was made of it before, if any.
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

// assign finds the file for what came of a URL. It is the one it had, unless its type has changed; else that of nameOf,
// with a hash of the URL if another URL has it, or if a directory does. If that URL is of the same directory and had the same
// bytes, it is returned instead.
func (x *index) assign(e *entry) (file, same string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.entries[e.URL]; old != nil && old.File != "" && old.Type == e.Type {
		return old.File, ""
	}
	parts := strings.Split(nameOf(e.u, e.Type), "/")
	for i := range parts[1:] { // a directory may be a file
		if x.claims[folded(strings.Join(parts[:i+1], "/"))] != "" {
			parts[i] += "~d"
		}
	}
	name := strings.Join(parts, "/")
	if owner, taken := x.claims[folded(name)]; taken && owner != e.URL {
		if o := x.entries[owner]; o != nil && o.Sum == e.Sum && o.Size == e.Size && o.Type == e.Type && o.u.Dir() == e.u.Dir() && o.u.Scheme() == e.u.Scheme() {
			return "", owner
		}
		ext := path.Ext(name)
		name = strings.TrimSuffix(name, ext) + "~" + shortHash(e.URL) + ext
	}
	x.claim(name, e.URL)
	return name, ""
}
