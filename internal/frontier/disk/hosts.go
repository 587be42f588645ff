package disk

import "github.com/treadlight/crawl/internal/store/sqlitedb"

// cachedHosts is how many hosts the writer caches, about 200 bytes each. When they are so many, it drops all and reads
// them again as needed.
const cachedHosts = 1 << 16

type host struct {
	id      int64
	name    string
	known   int64
	dormant int64 // position among the inactive hosts; zero means that the host is active
	refused int64 // pages refused in this round
	dirty   bool  // has changes to be written
}

// hosts caches the hosts of recent batches. Each changed host is written once per transaction.
type hosts struct {
	db      *sqlitedb.DB
	byName  map[string]*host
	dirty   []*host
	last    int64 // the largest ID
	dormant int64 // the last position
}

func newHosts(db *sqlitedb.DB) hosts {
	return hosts{db: db, byName: make(map[string]*host)}
}

func (hs *hosts) find(name string) (*host, error) {
	if h := hs.byName[name]; h != nil {
		return h, nil
	}
	var h *host
	err := hs.db.Each(queries.hostByName, func(q *sqlitedb.Stmt) error {
		h = &host{id: q.ColumnInt(0), name: name, known: q.ColumnInt(1), dormant: q.ColumnInt(2), refused: q.ColumnInt(3)}
		return nil
	}, name)
	if h == nil || err != nil {
		return nil, err
	}
	return h, hs.keep(h)
}

func (hs *hosts) named(name string) (*host, error) {
	h, err := hs.find(name)
	if err != nil || h != nil {
		return h, err
	}
	hs.last++
	h = &host{id: hs.last, name: name}
	return h, hs.keep(h)
}

// keep adds a host to the cache. If the cache is full, it drops all others first.
func (hs *hosts) keep(h *host) error {
	if len(hs.byName) >= cachedHosts {
		if err := hs.write(); err != nil {
			return err
		}
		clear(hs.byName)
	}
	hs.byName[h.name] = h
	return nil
}

// touch marks a host as changed.
func (hs *hosts) touch(h *host) {
	if !h.dirty {
		h.dirty = true
		hs.dirty = append(hs.dirty, h)
	}
}

// layDown makes a host inactive, behind all others that are, unless it is inactive already.
func (hs *hosts) layDown(h *host) {
	if h.dormant == 0 {
		hs.dormant++
		h.dormant = hs.dormant
		hs.touch(h)
	}
}

func (hs *hosts) write() error {
	for _, h := range hs.dirty {
		if err := hs.db.Run(queries.putHost, h.id, h.name, h.known, h.dormant, h.refused); err != nil {
			return err
		}
		h.dirty = false
	}
	hs.dirty = hs.dirty[:0]
	return nil
}

// layDownQuery makes all hosts with queued URLs inactive when a state is opened. Hosts that were active at the last end
// come first: they get positions below zero, in the order in which they were found. Zero means no position.
const layDownQuery = `UPDATE hosts SET dormant = id +
	(SELECT min(0, coalesce(min(dormant), 0)) FROM hosts) - (SELECT max(id) FROM hosts) - 1
	WHERE dormant IS NULL AND EXISTS (SELECT 1 FROM places WHERE host = hosts.id)`

func (hs *hosts) restore() (c Counts, err error) {
	err = hs.db.Each(`SELECT total(known), (SELECT count(*) FROM places), count(*), max(id), max(dormant) FROM hosts`, func(s *sqlitedb.Stmt) error {
		c.Known, c.Queued, c.Hosts = s.ColumnInt(0), s.ColumnInt(1), s.ColumnInt(2)
		c.Done = c.Known - c.Queued
		hs.last, hs.dormant = s.ColumnInt(3), max(0, s.ColumnInt(4))
		return nil
	})
	return c, err
}
