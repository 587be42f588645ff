package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/frontier"
)

type content struct {
	batch     int
	urls      map[int64]frontier.Item
	queued    map[int64]bool
	refused   map[int64]bool // in this round; false: for want of room
	found     map[int64]bool // by a visit, in any round
	positions map[string]frontier.Position
}

func (c content) clone() content {
	return content{
		c.batch, maps.Clone(c.urls), maps.Clone(c.queued), maps.Clone(c.refused), maps.Clone(c.found),
		maps.Clone(c.positions),
	}
}

func (c content) head(host string, behind frontier.Place, n int) (items []frontier.Item, more bool) {
	for id, it := range c.urls {
		if c.queued[id] && it.URL.Host() == host && behind.Before(it.Place()) {
			it.Referrer = c.urls[it.FoundOn].URL.String()
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b frontier.Item) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID)) })
	if len(items) > n {
		return items[:n], true
	}
	return items, false
}

func (c content) left(host string) frontier.HostLeft {
	l := frontier.HostLeft{Name: host}
	for id, it := range c.urls {
		if it.URL.Host() == host {
			page := it.Kind == frontier.Page
			l.Queued += int(integer(c.queued[id]))
			_, refused := c.refused[id]
			l.Pages += int(integer(page && !refused))
			l.Visited += int(integer(page && !refused && !c.queued[id]))
		}
	}
	return l
}

type machine struct {
	t       *rapid.T
	tb      testing.TB
	s       *Store
	now     content
	sealed  []content // that may be what is committed, the oldest first
	dormant []string  // in the order in which they came
	last    int64
	offered []frontier.Item // ever, whether or not they were committed
	dirs    int
	dir     string
	root    string
}

var modelHosts = []string{"a.test", "b.test", "c.test", "d.test:8080"}

// modelConfig has nothing happen because of the time, and runs and rebuilds of the index.
var modelConfig = Config{linger: time.Hour, maxPending: 40, memtableFPs: 8, unplaced: 5}

func (m *machine) open(dir string) {
	s, err := Open(dir, modelConfig)
	require.NoError(m.t, err)
	m.s, m.dir = s, dir
}

func (m *machine) put() {
	m.last += rapid.Int64Range(1, 3).Draw(m.t, "step")
	host := rapid.SampledFrom(modelHosts).Draw(m.t, "host")
	it := *testItem(m.tb, m.last, fmt.Sprintf("http://%s/%d/%d", host, m.dirs, m.last))
	it.Rank = rapid.Int32Range(-1, 1).Draw(m.t, "rank")
	it.Depth, it.Hops, it.Seed = rapid.Int32().Draw(m.t, "depth")&0xffff, rapid.Uint8().Draw(m.t, "hops"), rapid.Bool().Draw(m.t, "seed")
	it.Kind = rapid.SampledFrom([]frontier.Kind{frontier.Page, frontier.Sitemap}).Draw(m.t, "kind")
	if known := slices.Sorted(maps.Keys(m.now.urls)); len(known) > 0 {
		it.FoundOn = rapid.SampledFrom(known).Draw(m.t, "referrer")
	}
	it.Request = rapid.SampledFrom([]string{"", "\n{}", "POST\n{}"}).Draw(m.t, "request")
	fp := it.Fingerprint(m.s.Key())
	require.False(m.t, m.s.Known(fp))
	dormant := rapid.Bool().Draw(m.t, "dormant")
	m.s.Put(host, &it, fp, dormant)
	require.NoError(m.t, m.s.Err())
	require.True(m.t, m.s.Known(fp))
	m.now.urls[it.ID], m.now.queued[it.ID] = it, true
	m.offered = append(m.offered, it)
	if dormant && !slices.Contains(m.dormant, host) {
		m.dormant = append(m.dormant, host)
	}
}

// some is the ID of a URL that was put, or of none.
func (m *machine) some() int64 { return rapid.Int64Range(0, m.last+1).Draw(m.t, "id") }

func (m *machine) spent() {
	it := m.now.urls[m.some()]
	it.Attempt, it.Returns, it.URLFailures = rapid.Uint8().Draw(m.t, "attempt"), rapid.Uint16().Draw(m.t, "returns"), rapid.Uint8().Draw(m.t, "strikes")
	spent(m.s, &it)
	if m.now.queued[it.ID] {
		m.now.urls[it.ID] = it
	}
}

func (m *machine) done() {
	id := m.some()
	v := rapid.SampledFrom([]frontier.Visit{theVisit, {Class: "robots", Refused: true}, {Class: frontier.HostPages.String(), Refused: true}}).Draw(m.t, "visit")
	it := m.now.urls[id]
	it.ID = id
	m.s.Done(it.URL.Host(), &it, v)
	if !m.now.queued[id] {
		return
	}
	delete(m.now.queued, id)
	if v.Refused {
		m.now.refused[id] = v.Class == "robots"
	} else {
		m.now.found[id] = true
	}
}

// theVisit is what is found at a URL whenever it is visited.
var theVisit = frontier.Visit{At: time.UnixMilli(1), Status: 200}

func (m *machine) again() {
	m.commit()
	require.NoError(m.t, m.s.Again(m.tb.Context(), Again{}))
	for id, it := range m.now.urls {
		if m.now.queued[id] {
			continue
		}
		it.Attempt, it.Returns, it.URLFailures, it.Before = 0, 0, 0, nil
		if m.now.found[id] {
			it.Before = &theVisit
		}
		m.now.urls[id], m.now.queued[id] = it, true
	}
	m.now.refused = map[int64]bool{}
	m.sealed = []content{m.now.clone()}
	m.wantAll()
	m.dormant = nil
}

func (m *machine) load() {
	m.commit()
	host := rapid.SampledFrom(append(modelHosts, "never.test")).Draw(m.t, "host")
	behind := frontier.Place{Rank: rapid.Int32Range(-2, 1).Draw(m.t, "rank"), ID: m.some()}
	m.wantHead(host, behind, rapid.IntRange(1, 5).Draw(m.t, "n"))
}

func (m *machine) wantHead(host string, behind frontier.Place, n int) {
	m.s.Load(host, behind, n)
	m.s.Commit(nil)
	got := answer(m.tb, m.s)
	items, more := m.now.head(host, behind, n)
	require.Equal(m.t, urls(items), urls(got.Items))
	for i := range items {
		require.Equal(m.t, items[i], got.Items[i])
	}
	require.Equal(m.t, more, got.More)
	require.Equal(m.t, host, got.Host)
	require.Equal(m.t, behind, got.Behind)
}

func (m *machine) rouse() {
	n := rapid.IntRange(1, 3).Draw(m.t, "n")
	m.commit()
	m.s.Activate(n)
	m.s.Commit(nil)
	got := answer(m.tb, m.s)
	var want []frontier.HostLeft
	for _, host := range m.dormant[:min(n, len(m.dormant))] {
		if left := m.now.left(host); left.Queued > 0 {
			want = append(want, left)
		}
	}
	require.Equal(m.t, want, got.Hosts)
	require.Equal(m.t, len(m.dormant) > n, got.More)
	m.dormant = m.dormant[min(n, len(m.dormant)):]
}

func (m *machine) commit() {
	m.now.batch++
	p := frontier.Position{Path: rapid.SampledFrom([]string{"a.jsonl", "b.csv"}).Draw(m.t, "path"), Format: "x", Bytes: int64(m.now.batch) * 100, Records: int64(m.now.batch)}
	m.now.positions[p.Path] = p
	m.s.SetMeta("batch", strconv.Itoa(m.now.batch))
	m.s.Commit([]frontier.Position{p})
	m.sealed = append(m.sealed, m.now.clone())
}

func (m *machine) flush() {
	require.NoError(m.t, m.s.Flush(m.tb.Context()))
	m.sealed = m.sealed[len(m.sealed)-1:]
	require.EqualValues(m.t, len(m.sealed[0].queued), ask(m.tb, m.s, `SELECT count(*) FROM queue`))
	require.EqualValues(m.t, len(m.sealed[0].queued), ask(m.tb, m.s, `SELECT count(*) FROM pages WHERE state = 'queued'`))
}

// close ends the process in order: all batches that have ended are there.
func (m *machine) close() {
	require.NoError(m.t, m.s.Close())
	m.sealed = m.sealed[len(m.sealed)-1:]
	m.open(m.dir)
	m.compare()
}

// kill ends the process as SIGKILL does: what is in the files is what there is.
func (m *machine) kill() {
	m.s.Add(true, op{kind: opDo, do: func(w *writer) error { return w.load("never.test", frontier.Place{}, 1) }}) // for the writer to have come to the end of what it was told
	answer(m.tb, m.s)
	m.dirs++
	dir := filepath.Join(m.root, strconv.Itoa(m.dirs))
	copyLive(m.t, dir, m.dir)
	require.NoError(m.t, m.s.Close())
	m.open(dir)
	m.compare()
}

// copyLive copies a directory in which the writer and the index may be at work: a commit is
// appended to the log, which is copied after the database that it belongs to, and a run of the
// index has its name when it is whole. One that has another name by now, or none, was not there.
func copyLive(t require.TestingT, to, from string) {
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		require.NoError(t, err)
		return os.WriteFile(target, b, 0o600)
	}))
}

// compare finds the state to be that of the end of some batch, and takes that for its own.
func (m *machine) compare() {
	batch, _ := strconv.Atoi(m.s.Meta("batch"))
	i := slices.IndexFunc(m.sealed, func(c content) bool { return c.batch == batch })
	require.GreaterOrEqual(m.t, i, 0, "batch %d is lost", batch)
	m.now = m.sealed[i].clone()
	m.sealed = []content{m.now.clone()}
	last := max(0, slices.Max(append(slices.Collect(maps.Keys(m.now.urls)), 0)))
	require.Equal(m.t, frontier.Left{Queued: int64(len(m.now.queued)), Known: int64(len(m.now.urls)), LastID: last}, m.s.Left())
	for _, it := range m.offered {
		_, known := m.now.urls[it.ID]
		require.Equal(m.t, known && m.now.urls[it.ID].URL == it.URL, m.s.Known(it.Fingerprint(m.s.Key())), it.URL)
	}
	m.wantAll()
	m.offered = m.offered[:0]
	for _, it := range m.now.urls {
		m.offered = append(m.offered, it)
	}
	m.last = last
	m.dormant = nil
}

// wantAll rouses all hosts of a state that was just opened, and loads all there is.
func (m *machine) wantAll() {
	m.s.Activate(len(modelHosts))
	m.s.Commit(nil)
	got := answer(m.tb, m.s)
	var want []frontier.HostLeft
	for _, host := range modelHosts {
		if left := m.now.left(host); left.Queued > 0 {
			want = append(want, left)
		}
		m.wantHead(host, frontier.Place{Rank: -2}, 1000)
	}
	require.ElementsMatch(m.t, want, got.Hosts)
	require.ElementsMatch(m.t, slices.Collect(maps.Values(m.now.positions)), m.s.Positions())
}

// A store does what a naive one does, and after a kill is what that was at the end of a
// batch: of the last one, if it was flushed or closed in order.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{t: rt, tb: t, root: t.TempDir()}
		m.now = content{urls: map[int64]frontier.Item{}, queued: map[int64]bool{}, refused: map[int64]bool{}, found: map[int64]bool{}, positions: map[string]frontier.Position{}}
		m.sealed = []content{m.now.clone()}
		m.open(filepath.Join(m.root, "0"))
		defer func() { m.s.Close() }()
		step := func(f func()) func(*rapid.T) { return func(rt *rapid.T) { m.t = rt; f() } }
		rt.Repeat(map[string]func(*rapid.T){
			"put": step(m.put), "put2": step(m.put), "spent": step(m.spent), "done": step(m.done), "load": step(m.load),
			"rouse": step(m.rouse), "commit": step(m.commit), "flush": step(m.flush), "close": step(m.close), "kill": step(m.kill), "again": step(m.again),
		})
	})
}

func integer(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
