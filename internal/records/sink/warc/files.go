package warc

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The endings of names.
const (
	ending     = ".warc.gz"
	openEnding = ".open" // appended to ending until the file is complete

	// IndexEnding is the ending of the name of an archive's index.
	IndexEnding = ".cdxj"
)

type file struct {
	name   string // the name of the complete file
	open   bool   // whether it is incomplete
	single bool   // whether it is the whole series: it has its final name from the beginning, and no index
	serial int
}

func (f *file) path(dir string) string {
	if f.open && !f.single {
		return filepath.Join(dir, f.name+openEnding)
	}
	return filepath.Join(dir, f.name)
}

func (f *file) index(dir string) string {
	return filepath.Join(dir, strings.TrimSuffix(f.name, ending)+IndexEnding)
}

// remove removes the file and its index. A single file is only emptied.
func (f *file) remove(dir string) error {
	if f.single {
		return os.Truncate(f.path(dir), 0)
	}
	err := os.Remove(f.path(dir))
	if e := os.Remove(f.index(dir)); !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

func nameOf(prefix, host string, serial int, now time.Time) string {
	name := fmt.Sprintf("%s-%s-%05d", prefix, now.UTC().Format("20060102150405"), serial)
	host = regexp.MustCompile("[^a-zA-Z0-9.-]").ReplaceAllString(host, "-")
	if host = strings.Trim(host[:min(len(host), maxHostPart)], "-."); host != "" {
		name += "-" + host
	}
	return name + ending
}

// maxHostPart bounds the host in the name of a file. File systems bound names at 255.
const maxHostPart = 64

func single(path string) ([]*file, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file, and a record that is cut off could not be taken back: choose another file", path)
	case info.Size() == 0:
		return nil, nil
	}
	return []*file{{name: filepath.Base(path), open: true, single: true, serial: 1}}, nil
}

// list returns the files in dir whose names begin with the prefix, in the order in which they were written.
func list(dir, prefix string) ([]*file, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	pattern := regexp.MustCompile(`^` + regexp.QuoteMeta(prefix) + `-\d{14}-(\d{5,9})(-[A-Za-z0-9.-]+)?\.warc\.gz(\.open)?$`)
	var files []*file
	for _, e := range names {
		m := pattern.FindStringSubmatch(e.Name())
		if m == nil || !e.Type().IsRegular() {
			continue
		}
		serial, _ := strconv.Atoi(m[1]) // cannot fail: there are 5 to 9 digits
		files = append(files, &file{name: strings.TrimSuffix(e.Name(), openEnding), open: m[3] != "", serial: serial})
	}
	slices.SortFunc(files, func(a, b *file) int { return cmp.Or(a.serial-b.serial, strings.Compare(a.name, b.name)) })
	return files, nil
}
