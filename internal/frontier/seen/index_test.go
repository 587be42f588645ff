package seen

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOpenNamesThePath(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(filepath.Join(file, "seen"), 0, Config{})
	require.ErrorContains(t, err, file)
	_, err = Open(file, 0, Config{})
	require.ErrorContains(t, err, file+": not a directory: move it away")
}

// TestASetThatGrows goes through memtables and runs, and the set is exact after each.
func TestASetThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "seen")
		x := opened(t, dir, Config{MemtableFPs: 100})
		mark := int64(0)
		for last := int64(50); last <= 10_000; last += 50 {
			fill(t, x, last-49, last)
			x.Committed(last)
			synctest.Wait()
			if last%1000 == 0 {
				requireRows(t, x, last)
			}
			require.Equal(t, last, x.count())
			require.GreaterOrEqual(t, x.Mark(), mark)
			require.LessOrEqual(t, last-x.Mark(), max(100, min(800, mark/8))+50, "what is in memory, at %d", last)
			mark = x.Mark()
			require.Len(t, files(t, dir), min(1, int(mark)), "what was replaced is gone")
		}
	})
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	return names
}

func TestNothingUncommittedIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := opened(t, t.TempDir(), Config{MemtableFPs: 10})
		fill(t, x, 1, 40) // of which none but the first ten can be written: no other memtable was sealed
		for _, c := range []struct{ committed, mark int64 }{{0, 0}, {9, 0}, {10, 10}, {9, 10}, {39, 10}} {
			x.Committed(c.committed)
			synctest.Wait()
			require.Equal(t, c.mark, x.Mark(), "committed %d", c.committed)
		}
		fill(t, x, 41, 41) // with which all before are sealed
		synctest.Wait()
		require.Equal(t, int64(10), x.Mark())
		x.Committed(40)
		synctest.Wait()
		require.Equal(t, int64(40), x.Mark())
		requireRows(t, x, 41)
	})
}

func TestOpenFindsWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		x := opened(t, dir, Config{Key: 7, MemtableFPs: 100})
		fill(t, x, 1, 951) // before the worker may write, so that only the first 100 are sealed
		x.Committed(950)
		synctest.Wait()
		x.Committed(951)
		synctest.Wait()
		require.NoError(t, x.Close())
		require.NoError(t, x.Close(), "once more is nothing")

		x = opened(t, dir, Config{Key: 7, MemtableFPs: 100})
		require.Equal(t, int64(100), x.Mark())
		require.Equal(t, int64(100), x.count())
		requireRows(t, x, 100)
		require.ErrorContains(t, x.Add(1, 100), "ascending")
		fill(t, x, 101, 201)
		synctest.Wait()
		require.Equal(t, int64(100), x.Mark(), "what is committed has to be told again")
		x.Committed(201)
		synctest.Wait()
		require.Equal(t, int64(200), x.Mark())
		requireRows(t, x, 201)
	})
}

func TestClosed(t *testing.T) {
	x := opened(t, t.TempDir(), Config{})
	require.NoError(t, x.Close())
	_, err := x.Has(1)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, x.Add(1, 1000), ErrClosed)
}

// TestCommitsAndSnapshotsComeFromAnywhere is for the race detector, with writes on the way.
func TestCommitsAndSnapshotsComeFromAnywhere(t *testing.T) {
	x := opened(t, t.TempDir(), Config{MemtableFPs: 50})
	told := make(chan int64)
	var sent atomic.Int64 // the latest of them
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for id := range told {
				x.Committed(id)
				ram, disk := x.Bytes()
				assert.Positive(t, ram+disk)
				assert.LessOrEqual(t, x.Mark(), sent.Load())
			}
		})
	}
	for id := int64(1); id <= 5000; id++ {
		require.NoError(t, x.Add(fingerprint(id), id))
		if id%25 == 0 {
			sent.Store(id)
			told <- id
		}
		found, err := x.Has(fingerprint(id / 2))
		require.NoError(t, err)
		require.Equal(t, id > 1, found)
	}
	close(told)
	others.Wait()
	requireRows(t, x, 5000)
}

func TestHasDoesNotAllocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := opened(t, t.TempDir(), Config{MemtableFPs: 1000})
		fill(t, x, 1, 7500)
		x.Committed(7500)
		synctest.Wait()
		var id int64
		require.Zero(t, testing.AllocsPerRun(20_000, func() {
			id++
			_, _ = x.Has(fingerprint(id % 15_000))
		}))
	})
}

func TestBytesAreThoseOfThePackageComment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		const n = 200 * perBlock
		x := opened(t, dir, Config{MemtableFPs: n})
		fill(t, x, 1, n+1)
		x.Committed(n + 1)
		synctest.Wait()
		ram, disk := x.Bytes()
		require.InDelta(t, 1.52, float64(ram-x.active.bytes())/n, 0.01)
		require.InDelta(t, 8.02, float64(disk-blockSize)/n, 0.01)
		info, err := os.Stat(files(t, dir)[0])
		require.NoError(t, err)
		require.Equal(t, info.Size(), disk)
	})
}

// What was found lately has more room in a larger index, and none of it is wrong or lost.
func TestRecentGrows(t *testing.T) {
	for n, want := range map[int64]int{0: minRecent, minRecent: minRecent, minRecent + 1: 2 * minRecent, 500_000: 1 << 19, maxRecent: maxRecent, 1 << 40: maxRecent} {
		require.Equal(t, want, recentFor(n), "of %d fingerprints", n)
	}
	const n = 3 * minRecent
	dir := t.TempDir()
	x := opened(t, dir, Config{MemtableFPs: minRecent / 2})
	for id := int64(1); id <= n; id++ {
		require.NoError(t, x.Add(fingerprint(id), id))
		x.Committed(id)
		if id%1000 == 0 { // one that is in the run by now, and is kept
			x.worker.Wait()
			found, err := x.Has(fingerprint(id / 4))
			require.NoError(t, err)
			require.True(t, found)
		}
	}
	require.Len(t, x.recent, 4*minRecent)
	requireRows(t, x, n)
	require.NoError(t, x.Close())
	x = opened(t, dir, Config{MemtableFPs: minRecent / 2})
	require.Len(t, x.recent, 4*minRecent, "opened")
}

func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		model := map[uint64]bool{}
		for _, fp := range rapid.SliceOf(rapid.Uint64Range(0, 300)).Draw(t, "fingerprints") {
			fp *= 1 << 40 // equal low bits: every one collides in the table
			s.Expect(fp)  // which changes nothing
			require.Equal(t, model[fp], s.Has(fp))
			require.Equal(t, !model[fp], s.Add(fp))
			model[fp] = true
			require.Equal(t, len(model), s.Len())
		}
	})
}

// TestTheFilterIsSeldomWrong holds it to the share that the package comment tells, with room
// for chance, and to no false denial at all.
func TestTheFilterIsSeldomWrong(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int64{1, 50, 1000, 300_000} {
		b := make(bloom, bloomWords(n))
		in := make([]uint64, n)
		for i := range in {
			in[i] = r.Uint64()
			b.add(in[i])
		}
		for _, fp := range in {
			require.True(t, b.has(fp))
		}
		var wrong int
		const asked = 400_000
		for range asked {
			if b.has(r.Uint64()) {
				wrong++
			}
		}
		t.Logf("%d fingerprints: %.2f %% wrong", n, 100*float64(wrong)/asked)
		require.Less(t, float64(wrong)/asked, 0.0065)
	}
}
