package summary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// schema is the version of the states that this package reads: the one that the frontier writes. The tests read states
// that the frontier has made, so they fail when it writes another.
const schema = 8

// readDir summarizes a crawl with a state. The state may be in use: it is only read.
func readDir(ctx context.Context, dir string, cfg Config) (*Summary, error) {
	path := filepath.Join(dir, "state.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return readWithoutState(ctx, dir, cfg)
	} else if err != nil {
		return nil, err
	}
	db, err := sqlitedb.Open(path, sqlitedb.Config{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	s, err := summarize(ctx, &state{db: db, dir: dir, cfg: cfg})
	return s, errors.Join(err, db.Close())
}

// readWithoutState summarizes records that were copied without their state.
func readWithoutState(ctx context.Context, dir string, cfg Config) (*Summary, error) {
	for _, spec := range sink.Formats() {
		path := numbered(filepath.Join(dir, "records"+spec.Ending()), cfg.Round)
		if _, err := os.Stat(path); err == nil && spec.Reportable() {
			return readFile(ctx, path, cfg)
		}
	}
	return nil, fmt.Errorf("%s has no crawl: neither state.db nor records.jsonl is there", dir)
}

// numbered returns the path of the file of a later round, as 'crawl again' names it.
func numbered(path string, round int) string {
	if round <= 1 {
		return path
	}
	ending := filepath.Ext(path)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ending), round, ending)
}

type state struct {
	db  *sqlitedb.DB
	dir string
	cfg Config
}

func summarize(ctx context.Context, st *state) (*Summary, error) {
	crawl, err := st.crawl()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", st.db.Path(), err)
	}
	path, err := st.records(crawl.Round)
	if err != nil {
		return nil, err
	}
	var s *Summary
	if path != "" {
		s, err = readFile(ctx, path, st.cfg)
	}
	// A crawl that has just begun has no record yet, but its state says something.
	if _, none := errors.AsType[*NoRecordsError](err); path == "" || none {
		s, err = st.visits(ctx, crawl.Round)
	}
	if err != nil {
		return nil, err
	}
	s.Crawl = crawl
	return s, nil
}

func (st *state) crawl() (*Crawl, error) {
	version, err := st.db.QueryInt("PRAGMA user_version")
	switch {
	case err != nil:
		return nil, err
	case version == 0:
		return nil, errors.New("it is no state of a crawl: name another directory, or the file of the records")
	case version != schema:
		return nil, fmt.Errorf("the state has version %d, and this program reads %d: use the program that wrote it, or name the file of the records", version, schema)
	}
	last, err := st.db.QueryInt("SELECT max(round) FROM rounds")
	if err != nil {
		return nil, err
	}
	c := &Crawl{Round: int(last)}
	if st.cfg.Round > c.Round {
		return nil, fmt.Errorf("there is no round %d: the latest is %d", st.cfg.Round, c.Round)
	}
	if st.cfg.Round > 0 {
		c.Round = st.cfg.Round
	}
	began, err := st.db.QueryInt(fmt.Sprintf("SELECT began FROM rounds WHERE round = %d", c.Round))
	if began > 0 {
		c.Began = time.UnixMilli(began).UTC()
	}
	var errs [3]error
	c.Queued, errs[0] = st.db.QueryInt("SELECT count(*) FROM queue")
	c.Known, errs[1] = st.db.QueryInt("SELECT count(*) FROM urls")
	rates := fmt.Sprintf("SELECT host, rate, pause_ns FROM rates WHERE rate > 0 ORDER BY rate, host LIMIT %d", st.cfg.List)
	errs[2] = st.db.Each(rates, func(q *sqlitedb.Stmt) error {
		c.Rates = append(c.Rates, Rate{Host: q.ColumnText(0), PerSecond: q.ColumnFloat(1), Pause: time.Duration(q.ColumnInt(2)).Seconds()})
		return nil
	})
	return c, errors.Join(err, errors.Join(errs[:]...))
}

// records returns the path of the file of a round; empty if there is none that can be read, as with archives, a pipe,
// or a file that is gone.
func (st *state) records(round int) (string, error) {
	path := ""
	err := st.db.Each("SELECT path, format FROM sinks ORDER BY length(path), path", func(q *sqlitedb.Stmt) error {
		// The shortest path is that of the first round: later ones have a number.
		if spec := sink.Format(q.ColumnText(1)).Spec(); path == "" && spec.Reportable() {
			path = numbered(q.ColumnText(0), round)
		}
		return nil
	})
	if err != nil || path == "" {
		return "", err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(st.dir, path)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", nil //nolint:nilerr // the state tells what it can
	}
	return path, nil
}

// visits makes a summary of what the state knows of a round. That does not include links, titles or timings.
func (st *state) visits(ctx context.Context, round int) (*Summary, error) {
	c := newCollector(st.cfg)
	query := fmt.Sprintf(`SELECT u.url, coalesce(u.kind, 'page'), v.status, u.depth, coalesce(r.url, ''), v.at, v.retries, v.bytes,
		coalesce(v.class, ''), coalesce(v.change, ''), coalesce(lower(hex(v.digest)), '')
		FROM visits v JOIN urls u ON u.id = v.url LEFT JOIN urls r ON r.id = u.referrer WHERE v.round = %d
		AND NOT (u.kind IS 'sitemap' AND v.status IN (404, 410)) -- that a host has no sitemap.xml is no finding
		ORDER BY v.id`, round)
	err := st.db.Each(query, func(q *sqlitedb.Stmt) error {
		r := &visit{
			URL: q.ColumnText(0), Kind: q.ColumnText(1), Status: int(q.ColumnInt(2)), Depth: int(q.ColumnInt(3)),
			Referrer: q.ColumnText(4), FetchedAt: time.UnixMilli(q.ColumnInt(5)).UTC(), Attempt: int(q.ColumnInt(6)) + 1,
			Bytes: q.ColumnInt(7), Change: q.ColumnText(9), Digest: q.ColumnText(10), fromState: true,
		}
		if r.Error.Class = q.ColumnText(8); r.Error.Class == classRobots {
			r.Attempt = 0
		}
		c.add(r)
		return ctx.Err()
	})
	c.sum.Source = Source{Path: filepath.Join(st.dir, "state.db"), Format: "state"}
	return c.finish(), err
}
