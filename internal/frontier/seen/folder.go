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

func (d folder) do(op, path string, f func() error) error {
	if d.step != nil {
		if err := d.step(op, path); err != nil {
			return &fs.PathError{Op: op, Path: path, Err: err}
		}
	}
	return f()
}

func (d folder) file(s span) string { return filepath.Join(d.path, s.name()) }

func (d folder) create(path string, content func(io.Writer) error) error {
	return d.do("create", path, func() error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		if err = content(target{d, f}); err == nil {
			err = d.do("sync", path, f.Sync)
		}
		return errors.Join(err, f.Close())
	})
}

// target is the one way to a file that is being written.
type target struct {
	d folder
	f *os.File
}

func (t target) Write(p []byte) (n int, err error) {
	err = t.d.do("write", t.f.Name(), func() error {
		n, err = t.f.Write(p)
		return err
	})
	return n, err
}

func (d folder) remove(path string) error {
	err := d.do("remove", path, func() error { return os.Remove(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// rename gives a file that was written under its temporary name the one it is found by.
func (d folder) rename(tmp, path string) error {
	return d.do("rename", path, func() error { return os.Rename(tmp, path) })
}

func (d folder) sync() error {
	return d.do("sync", d.path, func() error {
		atomicfile.SyncDir(d.path)
		return nil
	})
}

// load opens the chain of runs from row zero, the largest of each place, and removes all others. If one is damaged all
// are dropped, as the first is most of the index; and if they have rows behind the last, as after a power cut.
func (d folder) load(check uint64, last int64) (runs []*run, err error) {
	spans, rest, err := d.list()
	if err != nil {
		return nil, err
	}
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

// list reads the directory: the spans of the runs, the first rows and the largest first, and the paths of files that
// are ours by their ending and yet no runs. Other files are left alone.
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
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.after, b.after), cmp.Compare(b.last, a.last))
	})
	return spans, rest, err
}

// clear removes every run, the latest rows first, so that a kill leaves a chain. It syncs: a run that came back after
// a power cut would vouch for rows with reused IDs.
func (d folder) clear() error {
	spans, rest, err := d.list()
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(spans) {
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
