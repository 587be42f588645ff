package memory

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// maxLine bounds what is read of a file that is none of ours; a line takes a tenth of a KiB.
const maxLine = 1 << 16

// loadLines reads a file of JSON, and reports whether it is one. It must not open a database: to
// close a file gives up the locks that this process may hold on it.
func (d *Database) loadLines() (hosts []ratelimit.HostMemory, damage Damage, lines bool, err error) {
	info, err := os.Stat(d.cfg.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, damage, false, nil
	}
	if is, err := sqlitedb.IsDatabase(d.cfg.Path); is || err != nil {
		return nil, damage, false, err
	}
	f, err := os.Open(d.cfg.Path)
	if err != nil {
		return nil, damage, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	var head struct {
		Format  string
		Version int
	}
	switch {
	case !in.Scan() || json.Unmarshal(in.Bytes(), &head) != nil || head.Format != "treadlight-hosts":
		return nil, damage, false, fmt.Errorf("read %s: %w", d.cfg.Path, foreign("no memory of hosts"))
	case head.Version != version:
		return nil, damage, false, fmt.Errorf("read %s: %w", d.cfg.Path, newer(head.Version))
	}
	now := d.cfg.Clock.Now()
	for n := 2; in.Scan(); n++ {
		var m ratelimit.HostMemory
		if err = json.Unmarshal(in.Bytes(), &m); err != nil {
			err = fmt.Errorf("it is no JSON of a host: %w", err)
		} else {
			m.LastUsed, m.RetryUntil, m.HeldUntil = m.LastUsed.UTC(), m.RetryUntil.UTC(), m.HeldUntil.UTC()
			err = m.Validate()
		}
		if err != nil {
			damage.note(n, err)
		} else if m, ok := m.At(now, d.cfg.MaxWait); ok {
			hosts = append(hosts, m)
		}
	}
	if err := in.Err(); err != nil {
		return nil, damage, true, fmt.Errorf("read %s: %w", d.cfg.Path, err)
	}
	return hosts, damage, true, nil
}

// replace puts a database with the hosts in the place of the file, which keeps its mode and, if
// it is behind a symbolic link, its name.
func (d *Database) replace(hosts []ratelimit.HostMemory) error {
	path, err := filepath.EvalSymlinks(d.cfg.Path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what stays does no harm
	made := &Database{d.cfg}
	made.cfg.Path = filepath.Join(dir, "hosts.db")
	return errors.Join(made.merge(hosts), os.Chmod(made.cfg.Path, info.Mode().Perm()), os.Rename(made.cfg.Path, path))
}
