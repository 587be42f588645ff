package disk

import (
	"fmt"

	"github.com/treadlight/crawl/internal/ratelimit/memory"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// applicationID marks our database files: "TrLt".
const applicationID = 0x54724c74

// version is the version of the schema. States of any other are refused.
const version = 8

// Rows of urls and visits are only appended, so that writes go to the ends of these tables. Only places, the smallest
// table, is written at all positions. An index on visits (url) would cost one written page per visit. A column of zeros
// or of NULL takes a byte per row. URLs that were never requested need no row in places: see unplaced.go. The view
// queue lists all queued URLs.
const schema = `
CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE hosts (
	id       INTEGER PRIMARY KEY,
	name     TEXT    NOT NULL UNIQUE,
	known    INTEGER NOT NULL,
	dormant  INTEGER,
	refused  INTEGER NOT NULL DEFAULT 0
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
	url       TEXT    NOT NULL,
	kind      TEXT
) STRICT;
CREATE INDEX urls_seed ON urls (id) WHERE seed = 1;
CREATE INDEX urls_aside ON urls (host) WHERE kind IS NOT NULL;

CREATE TABLE places (
	host     INTEGER NOT NULL,
	rank     INTEGER NOT NULL,
	url      INTEGER NOT NULL,
	attempts INTEGER NOT NULL,
	returns  INTEGER NOT NULL,
	strikes  INTEGER NOT NULL,
	visit    INTEGER,
	PRIMARY KEY (host, rank, url)
) STRICT, WITHOUT ROWID;

CREATE TABLE placed (
	url   INTEGER NOT NULL,
	visit INTEGER NOT NULL
) STRICT;
INSERT INTO placed VALUES (0, 0);

CREATE TABLE visits (
	id       INTEGER PRIMARY KEY,
	url      INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	status   INTEGER NOT NULL,
	class    TEXT,
	bytes    INTEGER NOT NULL,
	retries  INTEGER NOT NULL,
	round    INTEGER NOT NULL DEFAULT 1,
	change   TEXT,
	etag     TEXT,
	modified INTEGER,
	digest   BLOB,
	refused  INTEGER
) STRICT;

CREATE TABLE rounds (
	round INTEGER PRIMARY KEY,
	began INTEGER NOT NULL,
	due   INTEGER NOT NULL
) STRICT;

CREATE TABLE sinks (
	path    TEXT PRIMARY KEY,
	format  TEXT    NOT NULL,
	bytes   INTEGER NOT NULL,
	records INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW queue AS SELECT host, rank, url, attempts, returns, strikes, visit FROM places
UNION ALL SELECT u.host, u.rank, u.id, 0, 0, 0, NULL FROM urls u
WHERE u.id > (SELECT url FROM placed)
AND NOT EXISTS (SELECT 1 FROM places p WHERE p.host = u.host AND p.rank = u.rank AND p.url = u.id)
AND u.id NOT IN (SELECT url FROM visits WHERE id > (SELECT visit FROM placed) AND url > (SELECT url FROM placed));

-- The other columns are those of the row with the maximum, as SQLite promises.
CREATE VIEW latest AS SELECT
	max(id) AS id, url, round, at, status, class, bytes, retries, change, etag, modified, digest
FROM visits GROUP BY url;

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

-- The few URLs with a frontier.Item.Request.
CREATE TABLE requests (
	url     INTEGER PRIMARY KEY,
	request TEXT    NOT NULL
) STRICT;
` + memory.TableSchema

// makeTables makes the tables of a new database.
func makeTables(db *sqlitedb.DB, program string) error {
	found, err := checkVersion(db, program)
	if err != nil || found == version {
		return err
	}
	return db.Transact(func() error {
		return db.Exec(schema + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version))
	})
}

// checkVersion returns the schema version of the file, or 0 if the file has no tables. A version that the program
// cannot use is an error.
func checkVersion(db *sqlitedb.DB, program string) (int64, error) {
	found, err := db.QueryInt("PRAGMA user_version")
	if err != nil || found == 0 || found == version {
		return found, err
	}
	by, _ := db.QueryText(`SELECT value FROM meta WHERE key = 'program'`) // a later version may have no such table
	return found, fmt.Errorf("%s: its schema has version %d, as %s writes it, and %s knows %d: use the former, or name another directory",
		db.Path(), found, by, program, version)
}

// checkOwner returns an error for the database of another program.
func checkOwner(db *sqlitedb.DB) error {
	id, err := db.QueryInt("PRAGMA application_id")
	if err != nil || id == applicationID {
		return err
	}
	tables, err := db.QueryInt("SELECT count(*) FROM sqlite_schema")
	if err == nil && (id != 0 || tables > 0) {
		err = fmt.Errorf("%s: %w", db.Path(), errForeign)
	}
	return err
}
