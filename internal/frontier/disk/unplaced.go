package disk

import (
	"cmp"
	"maps"
	"slices"

	"github.com/treadlight/crawl/internal/frontier"
)

// Rows of places stand by host, and the links of a page are of many hosts: writing each at once would write a page for
// each, twice. A row of urls says the same of a URL that was never asked for. So rows of places are written when a
// host is asked for, or by the hundred thousand, sorted, and not at all if the URL is visited before. The one row of
// placed says which URLs may lack theirs, for the next process (placeQuery) and the view queue.

const (
	// A commit writes one in placesShare of Config.unplaced beside those asked for, about 50 ms of work.
	placesShare = 16
	// mostUnplaced times Config.unplaced is how many there are at most: then all are written, whatever that takes.
	mostUnplaced = 2
)

// unplaced are the queued URLs without a row in places.
type unplaced struct {
	rows []unplacedRow   // in the order of their IDs
	last map[int64]int32 // the index of the newest of each host, by the host's ID

	// Of those that are being written, which are the first of rows:
	upTo  int     // of rows; zero: none are
	order []int64 // hosts, the first at the end
	visit int64   // the last visit there was when that began
}

type unplacedRow struct {
	id     int64
	host   int64
	rank   int32
	before int32 // the index of the one of the same host before it; -1 for none
	gone   bool  // it has its row, or needs none any more
}

// add takes a URL in, whose ID is larger than all before: the fingerprint index sees to that.
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

// take is what a host has, in the order of its queue; of more than most the newest. None of it is here any more.
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

// end forgets those that were written, and keeps what came since.
func (u *unplaced) end() {
	since := u.rows[u.upTo:]
	u.rows, u.upTo = u.rows[:0], 0
	clear(u.last)
	for _, r := range since { // each moves towards the beginning
		if !r.gone {
			u.add(r)
		}
	}
}

// placeRows writes up to most rows of a host, and returns how many.
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

// placeSurplus writes all rows once there are so many that they were put faster than commits came.
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

// placeNext writes up to n rows of those that are being written, and begins with those there are if none is.
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

// placeQuery writes the rows that earlier processes, and this one, left unwritten: see the view queue. Of the visits
// behind the mark only those of URLs behind the other are kept.
const placeQuery = `INSERT OR IGNORE INTO places SELECT host, rank, id, 0, 0, 0, NULL FROM urls
	WHERE id > (SELECT url FROM placed)
	AND id NOT IN (SELECT url FROM visits WHERE id > (SELECT visit FROM placed) AND url > (SELECT url FROM placed))
	ORDER BY host, rank, id;
	UPDATE placed SET url = (SELECT coalesce(max(id), 0) FROM urls), visit = (SELECT coalesce(max(id), 0) FROM visits)`
