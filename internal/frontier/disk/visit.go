package disk

import (
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// putVisit adds a row to visits, of the round under way. What is not known is NULL there,
// and takes no room.
func (w *writer) putVisit(url int64, v *frontier.Visit, retries int64) error {
	q := w.f.visit
	q.Int(1, url)
	q.Int(2, millis(v.At))
	q.Int(3, int64(v.Status))
	q.TextOrNull(4, v.Class)
	q.Int(5, v.Bytes)
	q.Int(6, retries)
	q.Int(7, w.round)
	q.TextOrNull(8, string(v.Change))
	q.TextOrNull(9, v.ETag)
	if v.LastModified.IsZero() {
		q.Null(10)
	} else {
		q.Int(10, v.LastModified.UnixMilli())
	}
	if v.Digest == noDigest {
		q.Null(11)
	} else {
		q.Text(11, string(v.Digest[:]))
	}
	if v.Refused {
		q.Int(12, 1)
	} else {
		q.Null(12)
	}
	return q.Run()
}

// noDigest is that of a visit that has none.
var noDigest = frontier.Visit{}.Digest

// millis is milliseconds since the epoch; of the zero time, zero.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// scanVisit is what a query says of a visit from a column on: at, status, bytes, etag,
// modified and digest. A digest of another length is none that was written here, and counts
// as unknown.
func scanVisit(q *sqlitedb.Stmt, column int) *frontier.Visit {
	v := &frontier.Visit{Status: int(q.ColumnInt(column + 1)), Bytes: q.ColumnInt(column + 2), ETag: q.ColumnText(column + 3)}
	if at := q.ColumnInt(column); at != 0 {
		v.At = time.UnixMilli(at)
	}
	if !q.ColumnIsNull(column + 4) {
		v.LastModified = time.UnixMilli(q.ColumnInt(column + 4))
	}
	if digest := q.ColumnBytes(column + 5); len(digest) == len(v.Digest) {
		copy(v.Digest[:], digest)
	}
	return v
}
