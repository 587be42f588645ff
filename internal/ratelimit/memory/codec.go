package memory

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
)

const (
	format  = "treadlight-hosts"
	version = 1
	// maxLine is the longest line that is read. A full name and every field come to less
	// than half of it.
	maxLine = 1 << 10
)

// header is the first line.
type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// FormatError says that a file is something else, or of another version of this one.
type FormatError struct {
	Version int // of a memory that another version of this program writes; 0 for what is none
	reason  string
}

// Error names the fix.
func (e *FormatError) Error() string { return e.reason }

// Damage is what was passed over while a file was read. The zero Damage is none.
type Damage struct {
	Lines int   // how many
	First int   // number of the first, counted from 1
	Err   error // what is wrong with that
}

func (d *Damage) note(line int, err error) {
	if d.Lines++; d.Lines == 1 {
		d.First, d.Err = line, err
	}
}

// book is the hosts of a file or of several, each once.
type book struct {
	hosts map[string]ratelimit.HostMemory
	most  int
}

func newBook(most int) *book {
	return &book{hosts: make(map[string]ratelimit.HostMemory), most: most}
}

// add merges an entry in: the newer one counts, but no order to wait is lost. Among
// equals the one that was there stays. Now and then the book is cut down to its bound,
// at a constant price per entry.
func (b *book) add(m ratelimit.HostMemory) {
	if old, ok := b.hosts[m.Domain]; ok {
		retry := later(old.RetryUntil, m.RetryUntil)
		if !m.LastUsed.After(old.LastUsed) {
			m = old
		}
		m.RetryUntil = retry
	}
	b.hosts[m.Domain] = m
	if len(b.hosts) > 2*b.most {
		kept := b.latest()
		clear(b.hosts)
		for _, m := range kept {
			b.hosts[m.Domain] = m
		}
	}
}

// latest are the entries used last, the latest first.
func (b *book) latest() []ratelimit.HostMemory {
	all := make([]ratelimit.HostMemory, 0, len(b.hosts))
	for _, m := range b.hosts {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b ratelimit.HostMemory) int {
		return cmp.Or(b.LastUsed.Compare(a.LastUsed), cmp.Compare(a.Domain, b.Domain))
	})
	return all[:min(len(all), b.most)]
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// newerError is about a memory of another version than ours.
func newerError(v int) error {
	return &FormatError{v, fmt.Sprintf("it is a memory of hosts of version %d, and this program writes version %d: name another file, or use the program that wrote it", v, version)}
}

// read adds to the book what a file says that still holds at now. Times that lie
// further ahead than wait are brought back to it.
func (b *book) read(r io.Reader, now time.Time, wait time.Duration) (damage Damage, err error) {
	lines := bufio.NewReaderSize(r, maxLine)
	first, err := readLine(lines)
	if errors.Is(err, io.EOF) {
		return damage, nil // empty, as somebody may have made it to set its mode
	}
	if err := checkHeader(first, err); err != nil {
		return damage, err
	}
	for n := 2; ; n++ {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF):
			return damage, nil
		case errors.Is(err, bufio.ErrBufferFull):
			damage.note(n, fmt.Errorf("it is longer than %d bytes", maxLine))
			continue
		case err != nil:
			return damage, err
		}
		m, err := parse(line)
		if err != nil {
			damage.note(n, err)
		} else if m, ok := m.At(now, wait); ok {
			b.add(m)
		}
	}
}

// readLine returns the next line without its end, valid until the next call. The rest
// of one that is too long is skipped, and ErrBufferFull returned.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return line, nil // whoever edits by hand may leave the last end out
	}
	for skip := err; errors.Is(skip, bufio.ErrBufferFull); {
		_, skip = r.ReadSlice('\n') // another error will be met again
	}
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// checkHeader judges the first line, which was read with err.
func checkHeader(line []byte, err error) error {
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	var h header
	if json.Unmarshal(line, &h) != nil || h.Format != format {
		return &FormatError{reason: "it is no memory of hosts: name another file, or one that does not exist yet"}
	}
	if h.Version != version {
		return newerError(h.Version)
	}
	return nil
}

// parse reads one line.
func parse(line []byte) (m ratelimit.HostMemory, err error) {
	if err = json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("it is no JSON of a host: %w", err)
	}
	m.LastUsed, m.RetryUntil, m.HeldUntil = m.LastUsed.UTC(), m.RetryUntil.UTC(), m.HeldUntil.UTC()
	return m, m.Validate()
}

// write writes a file.
func write(w io.Writer, hosts iter.Seq[ratelimit.HostMemory]) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header{format, version}); err != nil {
		return err
	}
	for m := range hosts {
		if err := enc.Encode(&m); err != nil {
			return err
		}
	}
	return b.Flush()
}
