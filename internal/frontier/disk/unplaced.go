package disk

import (
	"cmp"
	"maps"
	"slices"

	"github.com/treadlight/crawl/internal/frontier"
)

// unplaced holds the queued URLs that have no row in places.
//
// Rows of places are ordered by host, and the links of a page lead to many hosts, so writing each row at once would
// write a page of the database per link, twice. Of a URL that was never requested, its row of urls says the same. So a
// row of places is written when its host is loaded, or together with Config.unplaced others, sorted, and not at all if
// the URL is visited before. The one row of placed says which URLs may lack a row, for the next process (placeQuery)
// and the view queue.
type unplaced struct {
	rows []unplacedRow   // in ascending order of IDs
	last map[int64]int32 // by host ID: the index of the host's newest row
}

type unplacedRow struct {
	id     int64
	rank   int32
	before int32 // index of the previous row of the same host; -1 means none
	gone   bool  // has a row in places now, or needs none any more
}

// add appends a URL. Its ID must be larger than all before, which the fingerprint index ensures.
func (u *unplaced) add(host, id int64, rank int32) {
	before, found := u.last[host]
	if !found {
		before = -1
	}
	u.last[host] = int32(len(u.rows))
	u.rows = append(u.rows, unplacedRow{id: id, rank: rank, before: before})
}

func (u *unplaced) find(id int64) *unplacedRow {
	i, found := slices.BinarySearchFunc(u.rows, id, func(r unplacedRow, id int64) int { return cmp.Compare(r.id, id) })
	if !found || u.rows[i].gone {
		return nil
	}
	return &u.rows[i]
}

// placeHost writes the unplaced URLs of a host to places, in the order of its queue.
func (w *writer) placeHost(host int64) error {
	u := &w.unplaced
	i, found := u.last[host]
	if !found {
		return nil
	}
	delete(u.last, host)
	var rows []unplacedRow
	for ; i >= 0; i = u.rows[i].before {
		if r := &u.rows[i]; !r.gone {
			rows = append(rows, *r)
			r.gone = true
		}
	}
	slices.SortFunc(rows, func(a, b unplacedRow) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id)) })
	for _, r := range rows {
		if err := w.putPlace(host, &frontier.Item{Rank: r.rank, ID: r.id}); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) putPlace(host int64, it *frontier.Item) error {
	return w.f.db.Run(queries.putPlace, host, int64(it.Rank), it.ID, int(it.Attempt), int(it.Returns), int(it.URLFailures))
}

// placeAll writes all unplaced URLs.
func (w *writer) placeAll() error {
	u := &w.unplaced
	for _, host := range slices.Sorted(maps.Keys(u.last)) {
		if err := w.placeHost(host); err != nil {
			return err
		}
	}
	visit, err := w.f.db.QueryInt(`SELECT max(id) FROM visits`)
	if err != nil {
		return err
	}
	last := u.rows[len(u.rows)-1].id
	u.rows = u.rows[:0]
	return w.f.db.Run(queries.putPlaced, last, visit)
}

// placeQuery writes the rows that earlier processes and this one have left unwritten; compare the view queue. Among the
// visits behind placed.visit only those of URLs behind placed.url are considered, which keeps the set small.
const placeQuery = `INSERT OR IGNORE INTO places SELECT host, rank, id, 0, 0, 0, NULL FROM urls
	WHERE id > (SELECT url FROM placed)
	AND id NOT IN (SELECT url FROM visits WHERE id > (SELECT visit FROM placed) AND url > (SELECT url FROM placed))
	ORDER BY host, rank, id;
	UPDATE placed SET url = (SELECT coalesce(max(id), 0) FROM urls), visit = (SELECT coalesce(max(id), 0) FROM visits)`
