package disk

import (
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// replay brings the fingerprint index up to date with what is committed.
func (s *Store) replay(db *sqlitedb.DB) error {
	last := s.committed.Load()
	if s.index.Mark() > last { // it is of a database that got more, say before a power cut
		s.cfg.Log.Warn("fingerprint index dropped: it knows more than the database", "path", s.path)
		if err := s.index.Reset(); err != nil {
			return err
		}
	}
	mark := s.index.Mark()
	s.index.Committed(last)
	if mark == 0 && last > int64(s.cfg.maxPending) {
		s.cfg.Log.Info("building the fingerprint index from the database", "path", s.path, "urls", last)
	}
	return s.indexRows(db, mark, last)
}

// indexRows adds the URLs after one row up to another to the fingerprint index. In a damaged table IDs may not ascend.
func (s *Store) indexRows(db *sqlitedb.DB, after, last int64) error {
	return db.Each(`SELECT id, url, kind FROM urls WHERE id > ? AND id <= ? ORDER BY id`, func(q *sqlitedb.Stmt) error {
		id := q.ColumnInt(0)
		if id <= after || id > last {
			return sqlitedb.Damage(s.path, fmt.Sprintf("row %d of urls stands behind row %d", id, after))
		}
		after = id
		fp, err := s.fingerprintAs(q.ColumnBytes(1), q.ColumnIsNull(2))
		if err != nil {
			return err
		}
		return s.index.Add(fp, id)
	}, after, last)
}

// fingerprintOf is [canonical.URL.Fingerprint] of a URL in the database, which is canonical.
func fingerprintOf(url []byte, key uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(key)
	_, _ = d.Write(url) // a hash has nowhere to fail
	return d.Sum64()
}

// rebuild builds a damaged index anew, with what the batch under way has put.
func (s *Store) rebuild() error {
	s.cfg.Log.Warn("fingerprint index damaged: building it anew from the database", "path", s.path)
	if err := s.Flush(context.Background()); err != nil {
		return err
	}
	if err := s.index.Reset(); err != nil {
		return err
	}
	last := s.committed.Load()
	s.index.Committed(last)
	if err := s.read(func(db *sqlitedb.DB) error { return s.indexRows(db, 0, last) }); err != nil {
		return err
	}
	for i := range s.batch {
		o := &s.batch[i]
		if o.kind != opPut {
			continue
		}
		fp, err := s.fingerprintAs([]byte(o.item.URL.String()), o.item.Kind == frontier.Page)
		if err == nil {
			err = s.index.Add(fp, o.item.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fingerprintAs is the fingerprint of a row of urls: that of its URL, but for a page where a sitemap was looked for
// before, whose row comes earlier.
func (s *Store) fingerprintAs(url []byte, page bool) (uint64, error) {
	fp := fingerprintOf(url, s.key)
	if !page || !frontier.EndsAsUsual(url) {
		return fp, nil
	}
	known, err := s.index.Has(fp)
	if known {
		fp = frontier.AsPage(fp)
	}
	return fp, err
}
