package disk

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
)

// Again is what a new round is about.
type Again struct {
	// Since is the instant from which on an answer is new enough: URLs that were last
	// answered then or later are not visited again. What was refused, or brought no answer
	// the last time, is visited in any case. Zero means that all URLs are.
	Since time.Time
	// Meta is set together with it, as by SetMeta. Nil sets nothing.
	Meta map[string]string
}

// Again begins a new round: URLs that were visited are queued again, as they were found, each
// with the last of its visits that says what was there. That is durable when it returns, or
// not begun at all, and Left and Round speak of the new round from then on. It comes before a
// frontier is made of what is left; calls that were made before it are of the round before.
// URLs that are still queued stay so. If ctx ends first its error is returned, and the round
// begins nevertheless.
//
// It takes one pass over all visits, which are sorted by their URLs for it.
func (s *Store) Again(ctx context.Context, a Again) error {
	return s.await(ctx, func(w *writer) error {
		if err := w.f.db.Transact(func() error { return w.beginRound(&a) }); err != nil {
			return fmt.Errorf("begin a round: %w", err)
		}
		// What is known of hosts and places is of the round before.
		w.hosts = newHosts(w.f)
		clear(w.places)
		return w.restore()
	})
}

// What a visit says of a URL holds until one that says something else. That are answers that
// are whole, and that there is nothing; a failure or a refusal says nothing of the page.
const tellingVisit = `class IS NULL AND status BETWEEN 200 AND 399 OR status IN (404, 410)`

// The last visit is the one with the largest id. Whether it had a status is in its lowest bit.
const dueQuery = `INSERT OR IGNORE INTO places (host, rank, url, attempts, returns, strikes, visit)
	SELECT u.host, u.rank, u.id, 0, 0, 0, v.telling
	FROM (SELECT url, max(id * 2 + (status > 0)) %% 2 AS answered, max(at) AS at, max(iif(` + tellingVisit + `, id, NULL)) AS telling
		FROM visits GROUP BY url) v CROSS JOIN urls u ON u.id = v.url
	WHERE NOT v.answered OR v.at < %d`

// All that was refused is queued again, and counts for its host until it is refused again.
// What was left for want of room in the budget of its host is to find that anew; all else was
// never in the way of others, and is not now.
var returnQuery = fmt.Sprintf(`UPDATE hosts SET returned = refused, refused = 0 WHERE refused > 0 OR returned > 0;
	UPDATE hosts SET returned = max(0, returned - left.n)
	FROM (SELECT u.host, count(*) AS n FROM visits v JOIN urls u ON u.id = v.url
		WHERE v.class = '%s' AND v.refused = 1 AND u.kind IS NULL AND v.round = (SELECT max(round) FROM rounds) GROUP BY u.host) AS left
	WHERE left.host = hosts.id`, frontier.HostPages)

func (w *writer) beginRound(a *Again) error {
	now := w.s.cfg.Clock.Now()
	since := int64(math.MaxInt64)
	if !a.Since.IsZero() {
		since = a.Since.UnixMilli()
	}
	if err := w.f.db.Exec(placeQuery); err != nil {
		return err
	}
	if err := w.f.db.Exec(fmt.Sprintf(dueQuery, since)); err != nil {
		return err
	}
	if err := w.f.db.Exec(returnQuery); err != nil {
		return err
	}
	if err := w.f.db.Exec(fmt.Sprintf(`INSERT INTO rounds SELECT max(round) + 1, %d, (SELECT count(*) FROM queue) FROM rounds`, now.UnixMilli())); err != nil {
		return err
	}
	for key, value := range a.Meta {
		if err := w.f.putMetaRow(key, value); err != nil {
			return err
		}
		w.s.noteMeta(key, value)
	}
	return nil
}
