package disk

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

func (w *writer) apply(o *op) error {
	switch o.kind {
	case opPut:
		return w.put(o)
	case opDone:
		return w.finish(o)
	case opSpent:
		return w.spend(o)
	}
	return o.do(w)
}

// put adds a row to urls, which never changes, and defers the row of places.
func (w *writer) put(o *op) error {
	h, err := w.hosts.named(o.host)
	if err != nil {
		return err
	}
	if h.known == 0 {
		w.counts.Hosts++
	}
	h.known++
	if o.dormant {
		w.hosts.layDown(h)
	}
	w.hosts.touch(h)
	w.counts.Known++
	w.counts.Queued++
	it := &o.item
	// IDs ascend within a process; max is for the case that they ever do not.
	w.lastPut = max(w.lastPut, it.ID)
	if err := w.f.db.Run(queries.putURL, it.ID, h.id, int64(it.Rank), int64(it.Depth), int(it.Hops), it.Seed, it.FoundOn, it.Queued.UnixMilli(),
		it.URL.String(), sqlitedb.Unless(it.Kind == frontier.Page, it.Kind.String())); err != nil {
		return err
	}
	if it.Request != "" {
		if err := w.f.db.Run(queries.putRequest, it.ID, it.Request); err != nil {
			return err
		}
	}
	if it.Tries.None() {
		w.unplaced.add(h.id, it.ID, it.Rank)
		return nil
	}
	return w.putPlace(h.id, it)
}

// finish removes a URL from the queue and stores its visit. It ignores a URL that is not queued, which was finished
// before.
func (w *writer) finish(o *op) error {
	h, err := w.hosts.find(o.host)
	if h == nil {
		return err
	}
	it := &o.item
	if r := w.unplaced.find(it.ID); r != nil {
		r.gone = true
	} else {
		if err := w.f.db.Run(queries.unqueue, h.id, int64(it.Rank), it.ID); err != nil || w.f.db.Changes() == 0 {
			return err
		}
	}
	if o.visit.Refused && it.Kind == frontier.Page {
		h.refused++
		w.hosts.touch(h)
	}
	w.counts.Queued--
	w.counts.Done++
	return w.putVisit(it.ID, o.visit, int(it.Attempt))
}

func (w *writer) spend(o *op) error {
	h, err := w.hosts.find(o.host)
	if h == nil {
		return err
	}
	it := &o.item
	if r := w.unplaced.find(it.ID); r != nil {
		r.gone = true
		return w.putPlace(h.id, it)
	}
	return w.f.db.Run(queries.spent, int(it.Attempt), int(it.Returns), int(it.URLFailures), h.id, int64(it.Rank), it.ID)
}

// usualHead is how many URLs of a host are requested at a time in a crawl of many hosts.
const usualHead = 64

// load answers with URLs of a host; a host of which none was ever put has none.
func (w *writer) load(host string, behind frontier.Place, n int) error {
	a := frontier.Answer{Host: host, Behind: behind}
	h, err := w.hosts.find(host)
	if err != nil {
		return err
	}
	if h != nil {
		if a.Items, a.More, err = w.head(h, behind, n); err != nil {
			return err
		}
	}
	w.s.Answer(w.s.quit, a)
	return nil
}

func (w *writer) head(h *host, behind frontier.Place, n int) (items []frontier.Item, more bool, err error) {
	if err := w.placeHost(h.id); err != nil {
		return nil, false, err
	}
	items = make([]frontier.Item, 0, min(n, usualHead))
	err = w.f.db.Each(queries.load, func(q *sqlitedb.Stmt) error {
		if more = len(items) == n; more {
			return nil
		}
		it, err := w.item(q)
		items = append(items, it)
		return err
	}, h.id, int64(behind.Rank), behind.ID, n+1)
	if err == nil {
		err = w.referrers(items)
	}
	return items, more, err
}

// rowError is an error about a row that a person has to repair, or to delete from places.
type rowError struct{ error }

func (e *rowError) Unwrap() error { return e.error }

// item reads a row of the load query. A row that this program cannot have written is an error that names it. Skipping
// the row would lose its URL and leave it in the queue.
func (w *writer) item(q *sqlitedb.Stmt) (it frontier.Item, err error) {
	defer func() {
		if err != nil {
			err = &rowError{fmt.Errorf("%s: row %d of urls: %w: mend it, or delete its row in places", w.f.db.Path(), it.ID, err)}
		}
	}()
	var outside bool
	within := func(column int, least, most int64) int64 {
		v := q.ColumnInt(column)
		outside = outside || v < least || v > most
		return v
	}
	const max8, max16, max32 = 1<<8 - 1, 1<<16 - 1, 1<<31 - 1
	it = frontier.Item{
		Rank: int32(within(0, -max32-1, max32)), ID: q.ColumnInt(1),
		Tries: attribution.Tries{Attempt: uint8(within(2, 0, max8)), Returns: uint16(within(3, 0, max16)), URLFailures: uint8(within(4, 0, max8))},
		Found: frontier.Found{
			Depth: int32(within(5, 0, max32)), Hops: uint8(within(6, 0, max8)), Seed: q.ColumnInt(7) != 0, FoundOn: q.ColumnInt(8),
		},
		Queued: time.UnixMilli(q.ColumnInt(9)),
	}
	if outside {
		return it, fmt.Errorf("a figure is out of range")
	}
	text := q.ColumnText(10)
	if it.URL, err = canonical.Parse(text); err == nil && it.URL.String() != text {
		err = fmt.Errorf("its URL is not canonical: that is %s", it.URL)
	}
	switch kind := q.ColumnBytes(11); {
	case kind == nil:
	case string(kind) == frontier.Sitemap.String():
		it.Kind = frontier.Sitemap
	case err == nil:
		err = fmt.Errorf("its kind is %q, and not NULL or %q", kind, frontier.Sitemap)
	}
	if !q.ColumnIsNull(12) {
		it.Before = scanVisit(q, 13)
	}
	it.Request = q.ColumnText(19)
	return it, err
}

// referrers fills in the URLs of the pages that linked to items. Neighbors in the list were mostly found on the same
// page.
func (w *writer) referrers(items []frontier.Item) error {
	var id int64
	var url string
	for i := range items {
		it := &items[i]
		if it.FoundOn == 0 {
			continue
		}
		if it.FoundOn != id {
			id, url = it.FoundOn, ""
			if err := w.f.db.Each(queries.urlOf, func(q *sqlitedb.Stmt) error {
				url = q.ColumnText(0)
				return nil
			}, id); err != nil {
				return err
			}
		}
		it.Referrer = url
	}
	return nil
}

// activate answers with inactive hosts and makes them active. It counts the URLs of each, which happens once per host
// and process unless the host becomes inactive again.
func (w *writer) activate(n int) error {
	if err := w.hosts.write(); err != nil { // so that the query sees the changes
		return err
	}
	var names []string
	if err := w.f.db.Each(`SELECT name FROM hosts WHERE dormant IS NOT NULL ORDER BY dormant LIMIT ?`, func(q *sqlitedb.Stmt) error {
		names = append(names, q.ColumnText(0))
		return nil
	}, int64(n)+1); err != nil {
		return err
	}
	var a frontier.Answer
	a.More = len(names) > n
	for _, name := range names[:min(n, len(names))] {
		h, err := w.hosts.find(name)
		if err != nil {
			return err
		}
		h.dormant = 0
		w.hosts.touch(h)
		if err := w.placeHost(h.id); err != nil {
			return err
		}
		left, err := w.left(h)
		if err != nil {
			return err
		}
		if left.Queued > 0 {
			a.Hosts = append(a.Hosts, left)
		}
	}
	w.s.Answer(w.s.quit, a)
	return nil
}

func (w *writer) left(h *host) (frontier.HostLeft, error) {
	left := frontier.HostLeft{Name: h.name}
	err := w.f.db.Each(queries.countHost, func(q *sqlitedb.Stmt) error {
		left.Queued, left.Pages = int(q.ColumnInt(0)), int(h.known-h.refused-q.ColumnInt(1))
		left.Visited = left.Pages - (left.Queued - int(q.ColumnInt(2)))
		return nil
	}, h.id)
	return left, err
}

// putVisit adds a row of the current round to visits. Unknown values are NULL, and take no room.
func (w *writer) putVisit(url int64, v *frontier.Visit, retries int) error {
	unless := sqlitedb.Unless
	return w.f.db.Run(queries.visit, url, millis(v.At), v.Status, unless(v.Class == "", v.Class), v.Bytes, retries, w.round,
		unless(v.Change == "", string(v.Change)), unless(v.ETag == "", v.ETag), unless(v.LastModified.IsZero(), v.LastModified.UnixMilli()),
		unless(v.Digest == noDigest, string(v.Digest[:])), unless(!v.Refused, 1))
}

var noDigest = frontier.Visit{}.Digest

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// scanVisit reads a visit from the columns from column on: at, status, bytes, etag, modified and digest. A digest of
// another length counts as unknown.
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
