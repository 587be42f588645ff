package disk

import (
	"fmt"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// applicationID marks our files: "TrLt".
const applicationID = 0x54724c74

// step leads from one version of the schema to the next, within a transaction.
type step func(*sqlitedb.DB) error

// steps are the migrations: the i-th leads from version i to i+1, and a new file has version 0. Only ever append.
func steps() []step {
	return []step{script(version1), script(version2), script(version3), script(version4), script(version5), script(version6)}
}

// script is a step that needs nothing but SQL.
func script(sql string) step {
	return func(db *sqlitedb.DB) error { return db.Exec(sql) }
}

// Rows of urls and visits are only appended, so that writes go to the ends. Only queue, the smallest, is written all
// over. An index on visits (url) would cost a page written per visit. A column of zeros takes a byte per row.
const version1 = `
CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE hosts (
	id      INTEGER PRIMARY KEY,
	name    TEXT    NOT NULL UNIQUE,
	known   INTEGER NOT NULL,
	dormant INTEGER
) STRICT;
CREATE INDEX hosts_dormant ON hosts (dormant) WHERE dormant IS NOT NULL;

CREATE TABLE urls (
	id        INTEGER PRIMARY KEY,
	host      INTEGER NOT NULL,
	rank      INTEGER NOT NULL,
	depth     INTEGER NOT NULL,
	hops      INTEGER NOT NULL,
	seed      INTEGER NOT NULL,
	referrer  INTEGER NOT NULL,
	queued_at INTEGER NOT NULL,
	url       TEXT    NOT NULL
) STRICT;
CREATE INDEX urls_seed ON urls (id) WHERE seed = 1;

CREATE TABLE queue (
	host     INTEGER NOT NULL,
	rank     INTEGER NOT NULL,
	url      INTEGER NOT NULL,
	attempts INTEGER NOT NULL,
	returns  INTEGER NOT NULL,
	strikes  INTEGER NOT NULL,
	PRIMARY KEY (host, rank, url)
) STRICT, WITHOUT ROWID;

CREATE TABLE visits (
	id      INTEGER PRIMARY KEY,
	url     INTEGER NOT NULL,
	at      INTEGER NOT NULL,
	status  INTEGER NOT NULL,
	class   TEXT,
	bytes   INTEGER NOT NULL,
	retries INTEGER NOT NULL
) STRICT;

CREATE TABLE rates (
	host        TEXT PRIMARY KEY,
	used        INTEGER NOT NULL,
	rate        REAL    NOT NULL,
	pause_ns    INTEGER NOT NULL,
	retry_until INTEGER,
	held_until  INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE sinks (
	path    TEXT PRIMARY KEY,
	format  TEXT    NOT NULL,
	bytes   INTEGER NOT NULL,
	records INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW pages AS SELECT
	u.id, u.url, h.name AS host, iif(v.url IS NULL, 'queued', 'done') AS state,
	u.depth, u.hops, u.seed, r.url AS referrer,
	datetime(u.queued_at / 1000, 'unixepoch') AS queued_at,
	datetime(v.at / 1000, 'unixepoch') AS visited_at,
	v.status, v.class, v.bytes, v.retries
FROM urls u JOIN hosts h ON h.id = u.host
LEFT JOIN visits v ON v.url = u.id
LEFT JOIN urls r ON r.id = u.referrer;

CREATE VIEW broken AS SELECT
	u.url, v.status, v.class, r.url AS referrer, datetime(v.at / 1000, 'unixepoch') AS visited_at
FROM visits v JOIN urls u ON u.id = v.url
LEFT JOIN urls r ON r.id = u.referrer
WHERE v.status >= 400 OR v.status = 0;
`

// What robots.txt refused does not count for the budget of a host.
const version2 = `
ALTER TABLE hosts ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;
UPDATE hosts SET refused = r.n
FROM (SELECT u.host, count(*) AS n FROM visits v JOIN urls u ON u.id = v.url WHERE v.class IN ('robots', 'host_pages') GROUP BY u.host) AS r
WHERE r.host = hosts.id;
`

// Each round visits the URLs of those before again. The version of a page is in the visit that brought it, and a URL
// queued again names the visit to compare with. NULL takes a byte per row.
const version3 = `
CREATE TABLE rounds (
	round INTEGER PRIMARY KEY,
	began INTEGER NOT NULL,
	due   INTEGER NOT NULL
) STRICT;
INSERT INTO rounds SELECT 1, coalesce(unixepoch(value), 0) * 1000, 0 FROM meta WHERE key = 'created';

ALTER TABLE urls ADD COLUMN kind TEXT;
ALTER TABLE queue ADD COLUMN visit INTEGER;
ALTER TABLE visits ADD COLUMN round INTEGER NOT NULL DEFAULT 1;
ALTER TABLE visits ADD COLUMN change TEXT;
ALTER TABLE visits ADD COLUMN etag TEXT;
ALTER TABLE visits ADD COLUMN modified INTEGER;
ALTER TABLE visits ADD COLUMN digest BLOB;

DROP VIEW pages;
DROP VIEW broken;

-- The other columns are those of the row with the maximum, as SQLite promises.
CREATE VIEW latest AS SELECT
	max(id) AS id, url, round, at, status, class, bytes, retries, change, etag, modified, digest
FROM visits GROUP BY url;

CREATE VIEW pages AS SELECT
	u.id, u.url, h.name AS host, coalesce(u.kind, 'page') AS kind,
	iif(EXISTS (SELECT 1 FROM queue q WHERE q.host = u.host AND q.rank = u.rank AND q.url = u.id), 'queued', 'done') AS state,
	u.depth, u.hops, u.seed, r.url AS referrer,
	datetime(u.queued_at / 1000, 'unixepoch') AS queued_at,
	datetime(v.at / 1000, 'unixepoch') AS visited_at,
	v.status, v.class, v.bytes, v.retries, v.round, v.change, v.etag,
	datetime(v.modified / 1000, 'unixepoch') AS modified, lower(hex(v.digest)) AS digest
FROM urls u JOIN hosts h ON h.id = u.host
LEFT JOIN latest v ON v.url = u.id
LEFT JOIN urls r ON r.id = u.referrer;

CREATE VIEW broken AS SELECT
	u.url, v.status, v.class, r.url AS referrer, datetime(v.at / 1000, 'unixepoch') AS visited_at
FROM latest v JOIN urls u ON u.id = v.url
LEFT JOIN urls r ON r.id = u.referrer
WHERE v.status >= 400 OR v.status = 0;

CREATE VIEW changes AS SELECT
	v.round, v.change, u.url, v.status, v.bytes, r.url AS referrer, datetime(v.at / 1000, 'unixepoch') AS visited_at
FROM visits v JOIN urls u ON u.id = v.url
LEFT JOIN urls r ON r.id = u.referrer
WHERE v.change IS NOT NULL;
`

// A visit says whether it is a page: refused URLs count neither as pages nor for the budget of a host. The count of a
// host may exceed its visits, as refusals for want of a robots.txt look like failures.
const version4 = `
ALTER TABLE hosts ADD COLUMN returned INTEGER NOT NULL DEFAULT 0;
CREATE INDEX urls_aside ON urls (host) WHERE kind IS NOT NULL;

ALTER TABLE visits ADD COLUMN refused INTEGER;
UPDATE visits SET refused = 1 WHERE status = 0 AND class IN ('robots', 'host_pages', 'trap', 'excluded', 'not_included');
UPDATE hosts SET refused = max(0, refused - r.n)
FROM (SELECT u.host, count(*) AS n FROM visits v JOIN urls u ON u.id = v.url
	WHERE v.refused = 1 AND u.kind IS NOT NULL AND v.round = (SELECT max(round) FROM rounds) GROUP BY u.host) AS r
WHERE r.host = hosts.id;
`

// URLs that were never asked for need no row in places: see unplaced.go. The view queue has all queued ones.
const version5 = `
DROP VIEW pages;
ALTER TABLE queue RENAME TO places;

CREATE TABLE placed (
	url   INTEGER NOT NULL,
	visit INTEGER NOT NULL
) STRICT;
INSERT INTO placed SELECT (SELECT coalesce(max(id), 0) FROM urls), (SELECT coalesce(max(id), 0) FROM visits);

CREATE VIEW queue AS SELECT host, rank, url, attempts, returns, strikes, visit FROM places
UNION ALL SELECT u.host, u.rank, u.id, 0, 0, 0, NULL FROM urls u
WHERE u.id > (SELECT url FROM placed)
AND NOT EXISTS (SELECT 1 FROM places p WHERE p.host = u.host AND p.rank = u.rank AND p.url = u.id)
AND u.id NOT IN (SELECT url FROM visits WHERE id > (SELECT visit FROM placed) AND url > (SELECT url FROM placed));

-- A URL behind the mark has no visit before the other, so that any says that it is done.
CREATE VIEW pages AS SELECT
	u.id, u.url, h.name AS host, coalesce(u.kind, 'page') AS kind,
	iif(v.url IS NULL AND u.id > (SELECT url FROM placed)
		OR EXISTS (SELECT 1 FROM places p WHERE p.host = u.host AND p.rank = u.rank AND p.url = u.id), 'queued', 'done') AS state,
	u.depth, u.hops, u.seed, r.url AS referrer,
	datetime(u.queued_at / 1000, 'unixepoch') AS queued_at,
	datetime(v.at / 1000, 'unixepoch') AS visited_at,
	v.status, v.class, v.bytes, v.retries, v.round, v.change, v.etag,
	datetime(v.modified / 1000, 'unixepoch') AS modified, lower(hex(v.digest)) AS digest
FROM urls u JOIN hosts h ON h.id = u.host
LEFT JOIN latest v ON v.url = u.id
LEFT JOIN urls r ON r.id = u.referrer;
`

// A link to where a sitemap was looked for in vain is a link to a page, whatever comes first. At most one row per
// origin; older states have none.
const version6 = `
CREATE TABLE guesses (
	url      TEXT    PRIMARY KEY,
	absent   INTEGER NOT NULL,
	referrer INTEGER,
	depth    INTEGER,
	hops     INTEGER
) STRICT, WITHOUT ROWID;
`

// migrate brings the file to the newest version. On an error it stays at the last good one.
func migrate(db *sqlitedb.DB, steps []step, program string) error {
	version, err := checkOwner(db)
	if err != nil {
		return err
	}
	if version > len(steps) {
		by, _ := db.QueryText(`SELECT value FROM meta WHERE key = 'program'`) // a later version may have no such table
		return fmt.Errorf("%s: its schema has version %d, as %s writes it, and %s knows %d: use the former, or name another directory",
			db.Path(), version, by, program, len(steps))
	}
	for ; version < len(steps); version++ {
		if err := db.Transact(func() error {
			if err := steps[version](db); err != nil {
				return fmt.Errorf("migration of the schema to version %d: %w", version+1, err)
			}
			return db.Exec(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version+1))
		}); err != nil {
			return err
		}
	}
	return nil
}

// checkOwner is the version of the file, 0 if there is nothing in it.
func checkOwner(db *sqlitedb.DB) (version int, err error) {
	id, err := db.QueryInt("PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	tables, err := db.QueryInt("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	if id != applicationID && (id != 0 || tables > 0) {
		return 0, foreign(db.Path())
	}
	v, err := db.QueryInt("PRAGMA user_version")
	return int(v), err
}
