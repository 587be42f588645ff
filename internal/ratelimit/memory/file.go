package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// Config says which file it is.
type Config struct {
	Path     string        // of the file; empty is refused
	MaxHosts int           // entries kept, those used last; zero means 100000
	MaxWait  time.Duration // an obligation that ends later than that from now was written by a wrong clock, and ends then; zero means 1h
	Clock    clock.Clock   // tells the time and waits for the lock; nil means the system's
}

// File is the memory of hosts on disk. It is made by [New].
type File struct{ cfg Config }

// New returns a file and does not touch it. It rejects a Config with a value out of
// range, naming the field.
func New(cfg Config) (*File, error) {
	if cfg.Path == "" {
		return nil, errors.New("memory: Path is empty: name a file")
	}
	if cfg.MaxHosts == 0 {
		cfg.MaxHosts = 100_000
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = time.Hour
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.MaxHosts < 0 {
		return nil, fmt.Errorf("memory: MaxHosts = %d: want 1 or more", cfg.MaxHosts)
	}
	if cfg.MaxWait < 0 {
		return nil, fmt.Errorf("memory: MaxWait = %v: want a duration above zero", cfg.MaxWait)
	}
	return &File{cfg}, nil
}

// Path is the name under which the file was configured.
func (f *File) Path() string { return f.cfg.Path }

// Load reads what is left of the file at present, the latest used host first. There is
// nothing in a file that does not exist. The error is a [*FormatError] for another
// file than ours; or the path's, if it cannot be read, or could never be written since
// its directory does not exist. Damaged lines are no error.
func (f *File) Load() ([]ratelimit.HostMemory, Damage, error) {
	if _, err := os.Stat(filepath.Dir(f.cfg.Path)); err != nil {
		return nil, Damage{}, fmt.Errorf("%w: make the directory first", err)
	}
	b := newBook(f.cfg.MaxHosts)
	damage, err := f.readInto(b)
	if err != nil {
		return nil, damage, err
	}
	return b.latest(), damage, nil
}

// readInto adds what the file says to the book.
func (f *File) readInto(b *book) (Damage, error) {
	// A pipe or a device is looked at before it is opened, which might never return.
	info, err := os.Stat(f.cfg.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return Damage{}, nil
	}
	if err != nil {
		return Damage{}, err
	}
	if !info.Mode().IsRegular() {
		return Damage{}, fmt.Errorf("%s is no regular file: name one, or one that does not exist yet", f.cfg.Path)
	}
	r, err := os.Open(f.cfg.Path)
	if err != nil {
		return Damage{}, err
	}
	defer func() { _ = r.Close() }() // it was only read
	damage, err := b.read(r, f.cfg.Clock.Now(), f.cfg.MaxWait)
	if err != nil {
		return damage, fmt.Errorf("read %s: %w", f.cfg.Path, err)
	}
	return damage, nil
}

// Save merges hosts into the file, the newer entry of each host counting. Either it
// does all of that or the file stays as it was and the error says why. It writes to
// the file behind a symbolic link, not over the link. When ctx ends it no longer waits
// for its turn among other crawls, but saves nevertheless.
func (f *File) Save(ctx context.Context, hosts iter.Seq[ratelimit.HostMemory]) error {
	path := f.cfg.Path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	defer lock(ctx, f.cfg.Clock, filepath.Dir(path))()
	b := newBook(f.cfg.MaxHosts)
	now := f.cfg.Clock.Now()
	for m := range hosts { // first, so that among equals our own counts
		if m, ok := m.At(now, f.cfg.MaxWait); ok && m.Validate() == nil { // or it could not be read again
			b.add(m)
		}
	}
	if _, err := f.readInto(b); err != nil {
		return err
	}
	return replace(path, func(w io.Writer) error { return write(w, slices.Values(b.latest())) })
}

// replace is [atomicfile.Replace] with the file's name in its errors.
func replace(path string, content func(io.Writer) error) error {
	if err := atomicfile.Replace(path, 0o600, content); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
