package disk

import (
	"cmp"
	"maps"
	"slices"

	"github.com/treadlight/crawl/internal/frontier"
)

// Rows of places are ordered by host, and the links of a page lead to many hosts, so writing each row at once would
// write a page of the database per link, twice. Of a URL that was never requested, its row of urls says the same. So a
// row of places is written when its host is loaded, or together with a hundred thousand others, sorted, and not at all
// if the URL is visited before. The one row of placed says which URLs may lack a row, for the next process (placeQuery)
// and the view queue.

const (
	// A commit writes a placesShare-th of Config.unplaced rows, about 50 ms of work, in addition to the rows of hosts
	// that were loaded.
	placesShare = 16
	// mostUnplaced times Config.unplaced is how many unplaced URLs there may be. At that number all are written,
	// however long that takes.
	mostUnplaced = 2
)

// unplaced holds the queued URLs that have no row in places.
type unplaced struct {
	rows []unplacedRow   // in ascending order of IDs
	last map[int64]int32 // by host ID: the index of the host's newest row

	// About the rows that are being written, the first ones of rows:
	upTo  int     // how many; zero means that none are being written
	order []int64 // IDs of the hosts, the first at the end
	visit int64   // ID of the last visit when the writing began
}

type unplacedRow struct {
	id     int64
	host   int64
	rank   int32
	before int32 // index of the previous row of the same host; -1 means none
	gone   bool  // has a row in places now, or needs none any more
}

// add appends a URL. Its ID must be larger than all before, which the fingerprint index ensures.
func (u *unplaced) add(r unplacedRow) {
	r.before = -1
	if i, found := u.last[r.host]; found {
		r.before = i
	}
	u.last[r.host] = int32(len(u.rows))
	u.rows = append(u.rows, r)
}

func (u *unplaced) find(id int64) *unplacedRow {
	i, found := slices.BinarySearchFunc(u.rows, id, func(r unplacedRow, id int64) int { return cmp.Compare(r.id, id) })
	if !found || u.rows[i].gone {
		return nil
	}
	return &u.rows[i]
}

// take removes the rows of a host and returns them in the order of its queue. If there are more than most, it takes the
// newest.
func (u *unplaced) take(host int64, most int) (rows []unplacedRow) {
	i, found := u.last[host]
	if !found {
		return nil
	}
	for ; i >= 0 && len(rows) < most; i = u.rows[i].before {
		if r := &u.rows[i]; !r.gone {
			rows = append(rows, *r)
			r.gone = true
		}
	}
	if u.last[host] = i; i < 0 {
		delete(u.last, host)
	}
	slices.SortFunc(rows, func(a, b unplacedRow) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id)) })
	return rows
}

// end drops the rows that were written, and keeps those added since.
func (u *unplaced) end() {
	since := u.rows[u.upTo:]
	u.rows, u.upTo = u.rows[:0], 0
	clear(u.last)
	for _, r := range since { // each row moves towards the beginning
		if !r.gone {
			u.add(r)
		}
	}
}

// placeRows writes up to most unplaced URLs of a host to places, and returns how many.
func (w *writer) placeRows(host int64, most int) (int, error) {
	rows := w.unplaced.take(host, most)
	for _, r := range rows {
		if err := w.putPlace(host, &frontier.Item{Rank: r.rank, ID: r.id}); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

func (w *writer) putPlace(host int64, it *frontier.Item) error {
	ints(w.f.putPlace, host, int64(it.Rank), it.ID, int64(it.Attempt), int64(it.Returns), int64(it.URLFailures))
	return w.f.putPlace.Run()
}

// placeSurplus writes all unplaced URLs if there are mostUnplaced times as many as usual, because URLs were put faster
// than commits wrote them.
func (w *writer) placeSurplus() error {
	if len(w.unplaced.rows) < mostUnplaced*w.s.cfg.unplaced {
		return nil
	}
	for len(w.unplaced.rows) > 0 {
		if err := w.placeNext(len(w.unplaced.rows)); err != nil {
			return err
		}
	}
	return nil
}

// placeNext writes about n of the rows that are being written. If none are, it begins with all rows that there are.
func (w *writer) placeNext(n int) error {
	u := &w.unplaced
	if u.upTo == 0 {
		visit, err := w.f.db.QueryInt(`SELECT max(id) FROM visits`)
		if err != nil {
			return err
		}
		u.upTo, u.visit = len(u.rows), visit
		u.order = slices.Sorted(maps.Keys(u.last))
		slices.Reverse(u.order)
	}
	for ; n > 0 && len(u.order) > 0; n-- {
		host := u.order[len(u.order)-1]
		written, err := w.placeRows(host, n)
		if err != nil {
			return err
		}
		n -= max(written-1, 0)
		if _, more := u.last[host]; !more {
			u.order = u.order[:len(u.order)-1]
		}
	}
	if len(u.order) > 0 {
		return nil
	}
	ints(w.f.putPlaced, u.rows[u.upTo-1].id, u.visit)
	u.end()
	return w.f.putPlaced.Run()
}

// placeQuery writes the rows that earlier processes and this one have left unwritten; compare the view queue. Among the
// visits behind placed.visit only those of URLs behind placed.url are considered, which keeps the set small.
const placeQuery = `INSERT OR IGNORE INTO places SELECT host, rank, id, 0, 0, 0, NULL FROM urls
	WHERE id > (SELECT url FROM placed)
	AND id NOT IN (SELECT url FROM visits WHERE id > (SELECT visit FROM placed) AND url > (SELECT url FROM placed))
	ORDER BY host, rank, id;
	UPDATE placed SET url = (SELECT coalesce(max(id), 0) FROM urls), visit = (SELECT coalesce(max(id), 0) FROM visits)`
