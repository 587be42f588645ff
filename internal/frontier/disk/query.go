package disk

import "github.com/treadlight/crawl/internal/store/sqlitedb"

// query is a statement of the writer.
type query struct {
	stmt **sqlitedb.Stmt
	sql  string
}

// queries are all of them. The tests look at how SQLite carries them out.
func (f *file) queries() []query {
	return []query{
		{&f.begin, `BEGIN IMMEDIATE`},
		{&f.commit, `COMMIT`},
		{&f.rollback, `ROLLBACK`},
		{&f.putURL, `INSERT INTO urls (id, host, rank, depth, hops, seed, referrer, queued_at, url, kind) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&f.putPlace, `INSERT INTO places (host, rank, url, attempts, returns, strikes) VALUES (?, ?, ?, ?, ?, ?)`},
		{&f.putPlaced, `UPDATE placed SET url = ?, visit = ?`},
		// CROSS means to SQLite: in this order.
		{&f.find, `SELECT q.host, q.rank, q.attempts, u.kind FROM urls u CROSS JOIN places q ON q.host = u.host AND q.rank = u.rank AND q.url = u.id WHERE u.id = ?`},
		{&f.unqueue, `DELETE FROM places WHERE host = ? AND rank = ? AND url = ?`},
		{&f.visit, `INSERT INTO visits (url, at, status, class, bytes, retries, round, change, etag, modified, digest, refused)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS BLOB), ?)`},
		{&f.spent, `UPDATE places SET attempts = ?, returns = ?, strikes = ? WHERE host = ? AND rank = ? AND url = ?`},
		// LEFT, so that a row that is missing is not passed over.
		{&f.load, `SELECT q.rank, q.url, q.attempts, q.returns, q.strikes, u.depth, u.hops, u.seed, u.referrer, u.queued_at, u.url, u.kind,
			q.visit, v.at, v.status, v.bytes, v.etag, v.modified, v.digest
			FROM places q LEFT JOIN urls u ON u.id = q.url LEFT JOIN visits v ON v.id = q.visit
			WHERE q.host = ? AND (q.rank, q.url) > (?, ?) ORDER BY q.rank, q.url LIMIT ?`},
		{&f.urlOf, `SELECT url FROM urls WHERE id = ?`},
		{&f.hostByName, `SELECT ` + hostColumns + ` FROM hosts WHERE name = ?`},
		{&f.countQueue, `SELECT count(*) FROM places WHERE host = ?`},
		// Of what is no page a host has few; pages are not looked at.
		{&f.countAsides, `SELECT count(*), count(q.url) FROM urls u LEFT JOIN places q ON q.host = u.host AND q.rank = u.rank AND q.url = u.id
			WHERE u.host = ? AND u.kind IS NOT NULL`},
		{&f.putHost, `INSERT INTO hosts (id, name, known, dormant) VALUES (?, ?, ?, nullif(?, 0))
			ON CONFLICT (id) DO UPDATE SET known = excluded.known, dormant = excluded.dormant`},
		{&f.addRefused, `UPDATE hosts SET refused = refused + ? WHERE id = ?`},
		{&f.dormant, `SELECT ` + hostColumns + ` FROM hosts WHERE dormant IS NOT NULL ORDER BY dormant LIMIT ?`},
		{&f.putMeta, `INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`},
		{&f.putGuess, `INSERT INTO guesses (url, absent, referrer, depth, hops) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (url) DO UPDATE SET absent = excluded.absent, referrer = excluded.referrer, depth = excluded.depth, hops = excluded.hops`},
		{&f.putSink, `INSERT INTO sinks (path, format, bytes, records) VALUES (?, ?, ?, ?)
			ON CONFLICT (path) DO UPDATE SET format = excluded.format, bytes = excluded.bytes, records = excluded.records`},
	}
}
