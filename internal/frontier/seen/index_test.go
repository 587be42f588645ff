package seen

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// TestASetThatGrows goes through memtables, runs and merges, and the set is exact after each.
func TestASetThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := folder{path: filepath.Join(t.TempDir(), "seen")}
		x := opened(t, d, Config{MemtableFPs: 1000})
		for i, c := range []struct {
			mark int64 // the active memtable is in memory only
			runs int
		}{
			{0, 0}, {1000, 1}, {2000, 2}, {3000, 3}, {4000, 1}, {5000, 2}, {6000, 3}, {7000, 4}, {8000, 2},
		} {
			last := int64(i+1) * 1000
			fill(t, x, last-999, last)
			x.Committed(last)
			synctest.Wait()
			requireRows(t, x, last)
			require.Equal(t, c.mark, x.Mark(), "at %d", last)
			require.Equal(t, last, x.count())
			require.Len(t, x.now.Load().runs, c.runs, "at %d", last)
			synctest.Wait()
			require.Len(t, files(t, d), c.runs, "what was merged is gone")
		}
	})
}

func files(t *testing.T, d folder) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(d.path, "*"))
	require.NoError(t, err)
	return names
}

func TestNothingUncommittedIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := opened(t, folder{path: t.TempDir()}, Config{MemtableFPs: 10, Waiting: 3})
		fill(t, x, 1, 40)
		for _, c := range []struct{ committed, mark int64 }{{0, 0}, {9, 0}, {10, 10}, {9, 10}, {29, 20}, {40, 30}} {
			x.Committed(c.committed)
			synctest.Wait()
			require.Equal(t, c.mark, x.Mark(), "committed %d", c.committed)
		}
		requireRows(t, x, 40)
	})
}

func TestOpenFindsWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := folder{path: t.TempDir()}
		x := opened(t, d, Config{Key: 7, MemtableFPs: 100, Waiting: 10})
		fill(t, x, 1, 950)
		x.Committed(950)
		synctest.Wait()
		require.NoError(t, x.Close())
		require.NoError(t, x.Close(), "once more is nothing")

		x = opened(t, d, Config{Key: 7, MemtableFPs: 100})
		require.Equal(t, int64(900), x.Mark())
		require.Equal(t, int64(900), x.count())
		requireRows(t, x, 900)
		require.ErrorContains(t, x.Add(1, 900), "ascending")
		fill(t, x, 901, 1001)
		synctest.Wait()
		require.Equal(t, int64(900), x.Mark(), "what is committed has to be told again")
		x.Committed(1001)
		synctest.Wait()
		require.Equal(t, int64(1000), x.Mark())
		requireRows(t, x, 1001)
	})
}

func TestClosed(t *testing.T) {
	x := opened(t, folder{path: t.TempDir()}, Config{})
	require.NoError(t, x.Close())
	_, err := x.Has(1)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, x.Add(1, 1000), ErrClosed)
}

// TestCommitsAndSnapshotsComeFromAnywhere is for the race detector, with merges on the way.
func TestCommitsAndSnapshotsComeFromAnywhere(t *testing.T) {
	x := opened(t, folder{path: t.TempDir()}, Config{MemtableFPs: 50, Waiting: 1000})
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
		x := opened(t, folder{path: t.TempDir()}, Config{MemtableFPs: 1000, Waiting: 10})
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
		d := folder{path: t.TempDir()}
		const n = 200 * perBlock
		x := opened(t, d, Config{MemtableFPs: n})
		fill(t, x, 1, n+1)
		x.Committed(n + 1)
		synctest.Wait()
		ram, disk := x.Bytes()
		require.InDelta(t, 1.52, float64(ram-x.active.bytes())/n, 0.01)
		require.InDelta(t, 9.53, float64(disk-blockSize)/n, 0.01)
		info, err := os.Stat(files(t, d)[0])
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
	d := folder{path: t.TempDir()}
	x := opened(t, d, Config{MemtableFPs: minRecent / 2, Waiting: 10})
	for id := int64(1); id <= n; id++ {
		require.NoError(t, x.Add(fingerprint(id), id))
		x.Committed(id)
		if id%1000 == 0 { // one that is in a run by now, and is kept
			found, err := x.Has(fingerprint(id / 4))
			require.NoError(t, err)
			require.True(t, found)
		}
	}
	require.Len(t, x.recent, 4*minRecent)
	requireRows(t, x, n)
	require.NoError(t, x.Close())
	x = opened(t, d, Config{MemtableFPs: minRecent / 2})
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

func TestPickMerge(t *testing.T) {
	few := func(n int64, times int) []int64 { return slices.Repeat([]int64{n}, times) }
	for _, c := range []struct {
		name   string
		counts []int64
		want   int
	}{
		{"none", nil, -1},
		{"three", few(100, 3), -1},
		{"four", few(100, 4), 0},
		{"the earliest four", few(100, 6), 0},
		{"of like size", []int64{64, 127, 100, 70}, 0},
		{"of two sizes", []int64{400, 100, 100, 100}, -1},
		{"behind a large one", []int64{1600, 400, 400, 400, 400, 100}, 1},
		{"a small one between", []int64{100, 100, 10, 100, 100}, -1},
	} {
		require.Equal(t, c.want, pickMerge(c.counts), c.name)
	}
}

// TestRunsAreFew grows to a billion fingerprints in memtables of several sizes.
func TestRunsAreFew(t *testing.T) {
	for _, size := range []int64{1 << 19, 500_000, 524_287, 1000, 7} {
		var counts []int64
		var written, most int
		for range 2000 {
			counts = append(counts, size)
			written++
			for i := pickMerge(counts); i >= 0; i = pickMerge(counts) {
				var sum int64
				for _, n := range counts[i : i+fanIn] {
					sum += n
				}
				written += int(sum / size)
				counts = slices.Replace(counts, i, i+fanIn, sum)
			}
			most = max(most, len(counts))
		}
		require.LessOrEqual(t, most, 16, "size %d", size)
		require.LessOrEqual(t, float64(written)/2000, 6.0, "size %d: times that each is written", size)
	}
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
