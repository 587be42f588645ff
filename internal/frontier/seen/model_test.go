package seen

import (
	"errors"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type row struct {
	id int64
	fp uint64
}

// world is an index with a naive database beside it, and a disk that can stop at any step,
// as it does for a process that is killed there.
type world struct {
	d         folder
	x         *Index
	cfg       Config
	rows      []row
	known     map[uint64]bool
	lost      map[uint64]bool // that no database has
	committed int
	steps     atomic.Int64 // until the disk stops; negative for never
}

var errDead = errors.New("the process is dead")

func (w *world) step(op, path string) error {
	switch left := w.steps.Load(); {
	case left < 0:
		return nil
	case left > 0:
		w.steps.Add(-1)
		return nil
	}
	if op == "write" { // a part of it may have come through
		_ = os.WriteFile(path, []byte(magic), 0o600)
	}
	return errDead
}

func (w *world) lastID() int64 {
	if len(w.rows) == 0 {
		return 0
	}
	return w.rows[len(w.rows)-1].id
}

// restart opens the directory again: rows that were not committed are lost, their IDs are
// given to others, and nothing that is lost may be known.
func (w *world) restart(t *rapid.T) {
	if err := w.x.Close(); err != nil {
		require.ErrorIs(t, err, errDead)
	}
	w.steps.Store(-1)
	for _, r := range w.rows[w.committed:] {
		delete(w.known, r.fp)
		w.lost[r.fp] = true
	}
	w.rows = w.rows[:w.committed]
	var err error
	w.x, err = open(w.d, math.MaxInt64, w.cfg)
	require.NoError(t, err)
	require.LessOrEqual(t, w.x.Mark(), w.lastID())
	w.replay(t)
}

// replay is what the owner does after Open.
func (w *world) replay(t *rapid.T) {
	mark := w.x.Mark()
	for _, r := range w.rows {
		w.requireHas(t, r.fp, r.id <= mark)
		if r.id > mark {
			require.NoError(t, w.x.Add(r.fp, r.id))
		}
		w.x.Committed(r.id) // at once, for otherwise too much would wait
	}
	w.check(t)
}

func (w *world) requireHas(t *rapid.T, fp uint64, want bool) {
	found, err := w.x.Has(fp)
	if w.steps.Load() == 0 && err != nil {
		require.ErrorIs(t, err, errDead)
		return
	}
	require.NoError(t, err)
	require.Equal(t, want, found, "%x", fp)
}

func (w *world) check(t *rapid.T) {
	require.Equal(t, int64(len(w.known)), w.x.count())
	for fp := range w.known {
		w.requireHas(t, fp, true)
	}
	for fp := range w.lost {
		w.requireHas(t, fp, w.known[fp])
	}
}

// add puts rows into both, unless the disk has stopped.
func (w *world) add(t *rapid.T) {
	for _, v := range rapid.SliceOfN(rapid.Uint64Range(0, 2000), 1, 40).Draw(t, "fps") {
		fp := v
		if v%4 > 0 {
			fp *= golden
		}
		w.requireHas(t, fp, w.known[fp])
		if w.known[fp] {
			continue
		}
		id := w.lastID() + rapid.Int64Range(1, 3).Draw(t, "gap")
		if err := w.x.Add(fp, id); err != nil {
			require.ErrorIs(t, err, errDead)
			return
		}
		w.rows = append(w.rows, row{id, fp})
		w.known[fp] = true
	}
}

func (w *world) commit(t *rapid.T) {
	w.committed += rapid.IntRange(0, len(w.rows)-w.committed).Draw(t, "commit")
	if w.committed > 0 {
		w.x.Committed(w.rows[w.committed-1].id)
	}
}

// damage changes a byte of a run and asks until it is found, then the owner builds anew.
func (w *world) damage(t *rapid.T) {
	synctest.Wait()
	if len(w.x.now.Load().runs) == 0 {
		return
	}
	r := rapid.SampledFrom(w.x.now.Load().runs).Draw(t, "run")
	b, err := os.ReadFile(w.d.file(r.span))
	require.NoError(t, err)
	b[rapid.Int64Range(blockSize, blockSize*(1+r.blocks())-1).Draw(t, "byte")] ^= 0x10
	require.NoError(t, os.WriteFile(w.d.file(r.span), b, 0o600))
	clear(w.x.recent) // or the blocks would not be read
	err = nil
	for i := 0; i < len(w.rows) && err == nil; i++ {
		_, err = w.x.Has(w.rows[i].fp)
	}
	require.ErrorIs(t, err, ErrDamaged)
	w.committed = len(w.rows)
	w.restart(t)
}

func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		outer := struct{ testing.TB }{t} // of which rapid does not ask the deadline, which a bubble has not
		rapid.Check(outer, func(t *rapid.T) {
			dir, err := os.MkdirTemp(root, "world")
			require.NoError(t, err)
			w := &world{
				known: map[uint64]bool{}, lost: map[uint64]bool{},
				cfg: Config{MemtableFPs: rapid.IntRange(1, 60).Draw(t, "memtable"), Waiting: rapid.IntRange(1, 3).Draw(t, "waiting")},
			}
			w.steps.Store(-1)
			w.d = folder{dir, w.step}
			w.x, err = open(w.d, math.MaxInt64, w.cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, errors.Join(w.x.Close(), os.RemoveAll(dir))) }()
			t.Repeat(map[string]func(*rapid.T){
				"add":     w.add,
				"add on":  w.add,
				"commit":  w.commit,
				"damage":  w.damage,
				"check":   w.check,
				"restart": w.restart,
				"settle":  func(*rapid.T) { synctest.Wait() },
				"kill": func(t *rapid.T) {
					w.steps.Store(rapid.Int64Range(0, 30).Draw(t, "steps"))
					w.add(t)
					w.commit(t)
					w.add(t)
					synctest.Wait()
					w.restart(t)
				},
			})
		})
	})
}

func TestNamesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		after := rapid.Int64Range(0, 1<<62-1).Draw(t, "after")
		s := span{after, after + rapid.Int64Range(1, 1<<62-1).Draw(t, "rows")}
		got, ok := parseName(s.name())
		require.True(t, ok)
		require.Equal(t, s, got)
	})
	for _, name := range []string{"", "x.run", "1-2.run", span{2, 2}.name(), span{3, 2}.name(), span{-3, 2}.name(), span{1, 2}.name() + ".tmp", strings.ToUpper(span{1, 0xabc}.name())} {
		_, ok := parseName(name)
		require.False(t, ok, name)
	}
}
