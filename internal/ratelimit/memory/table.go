package memory

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// TableSchema creates the table. Times are milliseconds since 1970.
const TableSchema = `CREATE TABLE rates (
	host        TEXT PRIMARY KEY,
	used        INTEGER NOT NULL,
	rate        REAL    NOT NULL,
	pause_ns    INTEGER NOT NULL,
	retry_until INTEGER,
	held_until  INTEGER
) STRICT, WITHOUT ROWID;
`

// Of two entries of a host the newer counts, with the later end of a wait.
const putQuery = `INSERT INTO rates (host, used, rate, pause_ns, retry_until, held_until)
	VALUES (?, ?, ?, ?, nullif(?, 0), nullif(?, 0)) ON CONFLICT (host) DO UPDATE SET
	used        = max(used, excluded.used),
	rate        = iif(excluded.used >= used, excluded.rate, rate),
	pause_ns    = iif(excluded.used >= used, excluded.pause_ns, pause_ns),
	held_until  = iif(excluded.used >= used, excluded.held_until, held_until),
	retry_until = nullif(max(coalesce(retry_until, 0), coalesce(excluded.retry_until, 0)), 0)`

// An entry that is a day old and asks for no wait has no effect (ratelimit.HostMemory.At). The table is sorted only if
// there are too many rows.
const dropQuery = `DELETE FROM rates WHERE used <= %[1]d - 86400000
	AND coalesce(retry_until, 0) <= %[1]d AND coalesce(held_until, 0) <= %[1]d;
	DELETE FROM rates WHERE (SELECT count(*) FROM rates) > %[2]d
	AND +host IN (SELECT host FROM rates ORDER BY used DESC, host LIMIT -1 OFFSET %[2]d)`

// MergeTable writes hosts within the caller's transaction; the newer of two entries of a host counts. It drops entries
// that no longer count and, if there are more than most, those used longest ago. The table must exist.
func MergeTable(db *sqlitedb.DB, hosts []ratelimit.HostMemory, now time.Time, most int) error {
	for i := range hosts {
		m := &hosts[i]
		if err := db.Run(putQuery, m.Domain, m.LastUsed.UnixMilli(), float64(m.Rate), int64(m.Pause), millisUp(m.RetryUntil), millisUp(m.HeldUntil)); err != nil {
			return err
		}
	}
	return db.Exec(fmt.Sprintf(dropQuery, now.UnixMilli(), most))
}

// ReadTable returns the hosts of which something still counts at now, the one used last first, with no obligation that
// ends later than wait from now. Invalid rows are skipped and reported in damage, with their numbers in that order.
func ReadTable(db *sqlitedb.DB, now time.Time, wait time.Duration) (hosts []ratelimit.HostMemory, damage Damage, err error) {
	row := 0
	err = db.Each(`SELECT host, used, rate, pause_ns, coalesce(retry_until, 0), coalesce(held_until, 0)
		FROM rates ORDER BY used DESC, host`, func(q *sqlitedb.Stmt) error {
		row++
		m := ratelimit.HostMemory{
			Domain: q.ColumnText(0), LastUsed: time.UnixMilli(q.ColumnInt(1)).UTC(),
			Learned:    ratelimit.Learned{Rate: float32(q.ColumnFloat(2)), Pause: time.Duration(q.ColumnInt(3))},
			RetryUntil: timeOf(q.ColumnInt(4)), HeldUntil: timeOf(q.ColumnInt(5)),
		}
		if err := m.Validate(); err != nil {
			damage.note(row, err)
		} else if m, ok := m.At(now, wait); ok {
			hosts = append(hosts, m)
		}
		return nil
	})
	return hosts, damage, err
}

// millisUp returns t in milliseconds, rounded up, because waits must not end early. The zero time is 0.
func millisUp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(time.Millisecond - 1).UnixMilli()
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
