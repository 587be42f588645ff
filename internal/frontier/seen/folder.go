package seen

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/store/atomicfile"
)

const (
	runSuffix = ".run"
	tmpSuffix = ".tmp"
)

// span is what a memtable or a run covers: the rows behind after up to last.
type span struct{ after, last int64 }

// name is that of the file. Names in order are spans in order.
func (s span) name() string { return fmt.Sprintf("%016x-%016x%s", s.after, s.last, runSuffix) }

func parseName(name string) (span, bool) {
	var s span
	_, err := fmt.Sscanf(name, "%x-%x"+runSuffix, &s.after, &s.last)
	return s, err == nil && 0 <= s.after && s.after < s.last && s.name() == name
}

type folder struct {
	path string
	// step, if set, is called before every change of the directory or of a file in it, and an error of it stands for
	// one of the system's. Tests inject faults by it.
	step func(op, path string) error
}

func (d folder) before(op, path string) error {
	if d.step != nil {
		if err := d.step(op, path); err != nil {
			return &fs.PathError{Op: op, Path: path, Err: err}
		}
	}
	return nil
}

func (d folder) file(s span) string { return filepath.Join(d.path, s.name()) }

// create writes a file and has it on the disk.
func (d folder) create(path string, content func(io.Writer) error) error {
	if err := d.before("create", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = content(target{d, f}); err == nil {
		if err = d.before("sync", path); err == nil {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

// target is the one way to a file that is being written.
type target struct {
	d folder
	f *os.File
}

// Write implements [io.Writer].
func (t target) Write(p []byte) (int, error) {
	if err := t.d.before("write", t.f.Name()); err != nil {
		return 0, err
	}
	return t.f.Write(p)
}

// remove deletes a file. One that is gone is deleted.
func (d folder) remove(path string) error {
	if err := d.before("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// rename gives a file that was written under its temporary name the one it is found by.
func (d folder) rename(tmp, path string) error {
	if err := d.before("rename", path); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// sync makes what was renamed and removed outlast a power cut.
func (d folder) sync() error {
	err := d.before("sync", d.path)
	if err == nil {
		atomicfile.SyncDir(d.path)
	}
	return err
}

// load opens the chain of runs from row zero, the largest of each place, and removes all others. If one is damaged all
// are dropped, as the first is most of the index; and if they have rows behind the last, as after a power cut.
func (d folder) load(check uint64, last int64) (runs []*run, err error) {
	spans, rest, err := d.list()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.after, b.after), cmp.Compare(b.last, a.last))
	})
	var chain []span
	var mark int64
	for _, s := range spans {
		if s.after == mark {
			chain, mark = append(chain, s), s.last
		} else {
			rest = append(rest, d.file(s))
		}
	}
	if mark > last {
		return nil, d.clear()
	}
	if err := d.removeAll(rest); err != nil {
		return nil, err
	}
	for _, s := range chain {
		r, err := openRun(d, s, check)
		if err == nil {
			runs = append(runs, r)
			continue
		}
		closeRuns(runs)
		if errors.Is(err, ErrDamaged) {
			return nil, d.clear()
		}
		return nil, err
	}
	return runs, nil
}

func closeRuns(runs []*run) {
	for _, r := range runs {
		_ = r.f.Close() // it is synced, or was only read
	}
}

// list reads the directory: the spans of the runs, and the paths of files that are ours by their ending and yet no
// runs. Other files are left alone.
func (d folder) list() (spans []span, rest []string, err error) {
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		name := e.Name()
		if s, ok := parseName(name); ok {
			spans = append(spans, s)
		} else if strings.HasSuffix(name, runSuffix) || strings.HasSuffix(name, runSuffix+tmpSuffix) {
			rest = append(rest, filepath.Join(d.path, name))
		}
	}
	return spans, rest, err
}

// clear removes every run, the latest rows first, so that a kill leaves a chain. It syncs: a run that came back after
// a power cut would vouch for rows with reused IDs.
func (d folder) clear() error {
	spans, rest, err := d.list()
	if err != nil {
		return err
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(b.last, a.last) })
	for _, s := range spans {
		rest = append(rest, d.file(s))
	}
	return d.removeAll(rest)
}

// removeAll deletes files in their order, for good.
func (d folder) removeAll(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	for _, path := range paths {
		if err := d.remove(path); err != nil {
			return err
		}
	}
	return d.sync()
}
