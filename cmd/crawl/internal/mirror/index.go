package mirror

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
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

// entry is what the copy knows of a URL.
type entry struct {
	URL string `json:"u"`
	// File is where its copy is, by slashes; empty: there is none. It stays when a later request fails.
	File string `json:"f,omitempty"`
	// Shared says that File is that of another URL, which had the same bytes.
	Shared   bool         `json:"shared,omitempty"`
	Kind     rewrite.Kind `json:"k,omitempty"`
	Type     string       `json:"t,omitempty"`
	Charset  string       `json:"c,omitempty"`  // of the header
	Size     int64        `json:"n,omitempty"`  // of what came
	Sum      uint64       `json:"h,omitempty"`  // of what came
	At       int64        `json:"at,omitempty"` // where the pack has it, if it is a page
	Written  uint64       `json:"w,omitempty"`  // of what was written of it; zero: nothing
	ETag     string       `json:"etag,omitempty"`
	Modified string       `json:"modified,omitempty"`
	// Redirect is where it leads, with a fragment.
	Redirect string `json:"to,omitempty"`
	// Round is the last in which it was answered, or failed; Status and Err are of that.
	Round  int    `json:"r"`
	Status int    `json:"s,omitempty"`
	Err    string `json:"err,omitempty"`
	From   string `json:"from,omitempty"` // who has a link to it, if it failed
	Change string `json:"ch,omitempty"`   // how it differs from the round before
	// Stale are files that it had before, to be removed when nothing leads to them.
	Stale []string `json:"stale,omitempty"`

	u canonical.URL
}

// packed reports whether what came is in the pack, and its file is made of that.
func (e *entry) packed() bool { return e.Kind != rewrite.Opaque }

// forget leaves nothing of what came.
func (e *entry) forget() {
	e.File, e.Kind, e.Shared, e.Size, e.Sum, e.Written, e.At, e.ETag, e.Modified = "", rewrite.Opaque, false, 0, 0, 0, 0, "", ""
}

// head is the first line of the journal.
type head struct {
	Format int      `json:"format"`
	Round  int      `json:"round"`
	Pack   int      `json:"pack"` // the number of the file
	Seeds  []string `json:"seeds"`
	Open   bool     `json:"open,omitempty"` // the round is not settled
	Full   bool     `json:"full,omitempty"` // but it has seen all there is
}

// index is what is known of all URLs: in memory, and in a journal to which each change is added. It is safe for
// concurrent use.
type index struct {
	dir string // of the copy

	mu      sync.Mutex
	head    head
	entries map[string]*entry
	claims  map[string]string // folded names of files, with their URLs, and of directories, with ""
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
	x := &index{dir: dir, entries: make(map[string]*entry), claims: make(map[string]string)}
	name := filepath.Join(dir, stateDir, journalFile)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return nil, err
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
func (x *index) read(line []byte) error {
	if strings.HasPrefix(string(line), `{"format"`) {
		err := json.Unmarshal(line, &x.head)
		if err == nil && x.head.Format != format {
			err = fmt.Errorf("it is of another version of the program (%d)", x.head.Format)
		}
		return err
	}
	e := new(entry)
	if err := json.Unmarshal(line, e); err != nil {
		return err
	}
	u, err := canonical.Parse(e.URL)
	if err != nil {
		return err
	}
	for _, file := range append([]string{e.File}, e.Stale...) {
		if file != "" && !filepath.IsLocal(filepath.FromSlash(file)) {
			return fmt.Errorf("%q is not in the copy", file)
		}
	}
	if e.Size < 0 || e.At < 0 {
		return fmt.Errorf("%s has a negative size or place", e.URL)
	}
	e.u = u
	x.set(e)
	return nil
}

// set has an entry be that of its URL.
func (x *index) set(e *entry) {
	if old := x.entries[e.URL]; old != nil && old.File != e.File && !old.Shared {
		delete(x.claims, folded(old.File))
	}
	x.entries[e.URL] = e
	if e.File != "" && !e.Shared {
		x.claims[folded(e.File)] = e.URL
		x.claimDirs(e.File)
	}
}

func (x *index) claimDirs(file string) {
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
	err := atomicfile.Replace(name, 0o600, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<16)
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(x.head); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(x.entries)) {
			if err := enc.Encode(x.entries[key]); err != nil {
				return err
			}
		}
		return b.Flush()
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
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.set(e)
	_, err = x.lines.Write(append(line, '\n'))
	return err
}

// flush writes what was put to the journal. After an error nothing is written any more: half a line may be there.
func (x *index) flush() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lines.Flush()
}

// mark changes what is known of the round, and keeps it.
func (x *index) mark(change func(*head)) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(&x.head)
	line, err := json.Marshal(x.head)
	if err != nil {
		return err
	}
	_, err = x.lines.Write(append(line, '\n'))
	return cmp.Or(err, x.lines.Flush())
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

// files are the entries that own a file.
func (x *index) files() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range x.all() {
			if e.File != "" && !e.Shared && !yield(e) {
				return
			}
		}
	}
}

// maxHops bounds chains of redirects.
const maxHops = 20

// target is the file that a link to a URL leads to, and the fragment that a redirect adds. A URL that redirects to what
// the copy does not have leads to the copy that was made of it before, if any.
func (x *index) target(url string) (file, fragment string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	kept := ""
	for range maxHops {
		e := x.entries[url]
		if e == nil {
			break
		}
		if kept == "" {
			kept = e.File
		}
		if e.Redirect == "" {
			if e.File != "" {
				return e.File, fragment
			}
			break
		}
		to, f, _ := strings.Cut(e.Redirect, "#")
		if url = to; f != "" {
			fragment = "#" + f
		}
	}
	return kept, ""
}

// assign finds the file for what came of a URL. It is the one it had, unless its type has changed; else that of nameOf,
// with a hash of the URL if another URL has it, or if a directory does.
func (x *index) assign(u canonical.URL, mediaType string, sum uint64, size int64) (file string, shared bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	url := u.String()
	if old := x.entries[url]; old != nil && old.File != "" && !old.Shared && old.Type == mediaType {
		return old.File, false
	}
	name := x.freeDirs(nameOf(u, mediaType))
	if owner, taken := x.claims[folded(name)]; taken && owner != url {
		if e := x.entries[owner]; e != nil && e.Sum == sum && e.Size == size && e.Type == mediaType && e.u.Dir() == u.Dir() && e.u.Scheme() == u.Scheme() {
			return e.File, true
		}
		ext := path.Ext(name)
		name = strings.TrimSuffix(name, ext) + "~" + shortHash(url) + ext
	}
	x.claims[folded(name)] = url
	x.claimDirs(name)
	return name, false
}

// freeDirs renames the directories of a name that are files.
func (x *index) freeDirs(name string) string {
	parts := strings.Split(name, "/")
	for i := 1; i < len(parts); i++ {
		if owner := x.claims[folded(strings.Join(parts[:i], "/"))]; owner != "" {
			parts[i-1] += "~d"
		}
	}
	return strings.Join(parts, "/")
}
