package seen

import (
	"errors"
	"math"
	"os"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type row struct {
	id int64
	fp uint64
}

// world is an index with a naive database beside it.
type world struct {
	dir       string
	x         *Index
	cfg       Config
	rows      []row
	known     map[uint64]bool
	lost      map[uint64]bool // that no database has
	committed int
	left      map[string][]byte // files that were replaced, which a kill may leave
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
	require.NoError(t, w.x.Close())
	for _, r := range w.rows[w.committed:] {
		delete(w.known, r.fp)
		w.lost[r.fp] = true
	}
	w.rows = w.rows[:w.committed]
	var err error
	w.x, err = Open(w.dir, w.lastID(), w.cfg)
	require.NoError(t, err)
	require.LessOrEqual(t, w.x.Mark(), w.lastID())
	w.replay(t)
}

// kill ends the process while it writes, or between the steps of replacing a run.
func (w *world) kill(t *rapid.T) {
	w.keep(t)
	w.add(t)
	w.commit(t)
	if rapid.Bool().Draw(t, "wait") {
		synctest.Wait()
	}
	require.NoError(t, w.x.Close())
	for path, content := range w.left {
		if rapid.Bool().Draw(t, "left") {
			require.NoError(t, os.WriteFile(path, content, 0o600))
		}
		require.NoError(t, os.WriteFile(path+".1.tmp", content[:len(content)/2], 0o600))
	}
	clear(w.left)
	w.restart(t)
}

// keep remembers the run of now.
func (w *world) keep(t *rapid.T) {
	synctest.Wait()
	if r := w.x.now.Load().run; r != nil {
		b, err := os.ReadFile(r.path)
		require.NoError(t, err)
		clear(w.left)
		w.left[r.path] = b
	}
}

// replay is what the owner does after Open.
func (w *world) replay(t *rapid.T) {
	mark := w.x.Mark()
	for _, r := range w.rows {
		w.requireHas(t, r.fp, r.id <= mark)
		if r.id > mark {
			require.NoError(t, w.x.Add(r.fp, r.id))
		}
		w.x.Committed(r.id)
	}
	w.check(t)
}

func (w *world) requireHas(t *rapid.T, fp uint64, want bool) {
	found, err := w.x.Has(fp)
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

// add puts rows into both.
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
		require.NoError(t, w.x.Add(fp, id))
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
	r := w.x.now.Load().run
	if r == nil {
		return
	}
	b, err := os.ReadFile(r.path)
	require.NoError(t, err)
	b[rapid.Int64Range(blockSize, blockSize*(1+r.blocks())-1).Draw(t, "byte")] ^= 0x10
	require.NoError(t, os.WriteFile(r.path, b, 0o600))
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
				dir: dir, known: map[uint64]bool{}, lost: map[uint64]bool{}, left: map[string][]byte{},
				cfg: Config{MemtableFPs: rapid.IntRange(1, 60).Draw(t, "memtable")},
			}
			w.x, err = Open(dir, math.MaxInt64, w.cfg)
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
				"kill":    w.kill,
			})
		})
	})
}
