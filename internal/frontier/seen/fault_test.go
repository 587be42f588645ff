package seen

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestAMergeThatIsNotSyncedRemovesNothing holds the order of steps to what a power cut asks
// for: content before name, name before removal.
func TestAMergeThatIsNotSyncedRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []string
		d := folder{t.TempDir(), nil}
		d.step = func(op, path string) error {
			steps = append(steps, op+" "+strings.TrimLeft(strings.ReplaceAll(filepath.Base(path), "0", ""), "."))
			return nil
		}
		x := opened(t, d, Config{MemtableFPs: 1, Waiting: 5})
		for id := range int64(5) {
			require.NoError(t, x.Add(fingerprint(id), id+1))
		}
		x.Committed(5)
		synctest.Wait()
		merge := steps[len(steps)-9:]
		dir := "sync " + strings.TrimLeft(strings.ReplaceAll(filepath.Base(d.path), "0", ""), ".")
		require.Equal(t, []string{
			"create -4.run.tmp", "write -4.run.tmp", "sync -4.run.tmp", "rename -4.run", dir,
			"remove -1.run", "remove 1-2.run", "remove 2-3.run", "remove 3-4.run",
		}, merge)
	})
}

// TestARemovalThatStopsLeavesAChain lets the removal of each run fail in turn, and looks at the
// order of steps to what a power cut asks for.
func TestARemovalThatStopsLeavesAChain(t *testing.T) {
	for removed, mark := range []int64{60, 50, 40, 0} {
		synctest.Test(t, func(t *testing.T) {
			removals := 0
			var last string
			d := folder{path: t.TempDir()}
			x := opened(t, d, Config{MemtableFPs: 10, Waiting: 6})
			fill(t, x, 1, 61)
			x.Committed(61)
			synctest.Wait()
			require.NoError(t, x.Close())
			require.Len(t, files(t, d), 3)
			d.step = func(op, path string) error {
				last = op + " " + path
				if op == "remove" {
					if removals++; removals > removed {
						return syscall.EIO
					}
				}
				return nil
			}
			if err := d.clear(); removed == 3 {
				require.NoError(t, err)
				require.Equal(t, "sync "+d.path, last, "or a run could come back")
			} else {
				require.ErrorIs(t, err, syscall.EIO)
			}
			y := opened(t, folder{path: d.path}, Config{})
			require.Equal(t, mark, y.Mark())
			requireRows(t, y, mark)
		})
	}
}

// held stops the worker when it begins to merge, until release.
type held struct {
	release chan struct{}
	reached chan struct{}
}

func (h held) step(op, path string) error {
	s, _ := parseName(strings.TrimSuffix(filepath.Base(path), tmpSuffix))
	if op == "create" && s == (span{0, 40}) {
		close(h.reached)
		<-h.release
	}
	return nil
}

// TestMemtablesDoNotWaitForAMerge writes two while four runs become one, and they come behind.
func TestMemtablesDoNotWaitForAMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := held{make(chan struct{}), make(chan struct{})}
		d := folder{t.TempDir(), nil}
		var x *Index
		var mark int64 // when the merge is done
		d.step = func(op, path string) error {
			if op == "rename" && path == d.file(span{0, 40}) {
				mark = x.Mark()
			}
			return h.step(op, path)
		}
		x = opened(t, d, Config{MemtableFPs: 10})
		x.Committed(1000)
		fill(t, x, 1, 41)
		<-h.reached
		fill(t, x, 42, 61)
		require.Equal(t, int64(40), x.Mark())
		close(h.release)
		synctest.Wait()
		require.Equal(t, int64(60), mark)
		require.Equal(t, int64(60), x.Mark())
		require.Len(t, x.now.Load().runs, 3)
		require.Equal(t, span{0, 40}, x.now.Load().runs[0].span)
		requireRows(t, x, 61)
	})
}

func TestCloseGivesUpAMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := held{make(chan struct{}), make(chan struct{})}
		d := folder{t.TempDir(), h.step}
		x := opened(t, d, Config{MemtableFPs: 10})
		x.Committed(1000)
		fill(t, x, 1, 41)
		<-h.reached
		closed := make(chan error)
		go func() { closed <- x.Close() }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it did not wait for the worker")
		default:
		}
		close(h.release)
		require.NoError(t, <-closed)
		require.Len(t, files(t, d), 4)

		x = opened(t, folder{path: d.path}, Config{MemtableFPs: 10})
		require.Equal(t, int64(40), x.Mark())
		synctest.Wait()
		require.Len(t, files(t, d), 1, "merged after all")
		requireRows(t, x, 40)
	})
}

type faulty struct {
	op, path string
	err      error
	hits     int
}

func (f *faulty) step(op, path string) error {
	if f.err == nil || op != f.op || !strings.Contains(path, f.path) {
		return nil
	}
	f.hits++
	return f.err
}

// TestAFullDisk lets each step of writing a run or of a merge fail: that ends the index, leaves nothing of what failed,
// and the next finds all that was written before.
func TestAFullDisk(t *testing.T) {
	for _, op := range []string{"create", "write", "sync", "rename"} {
		for name, at := range map[string]span{"run": {0, 10}, "merge": {0, 40}} {
			t.Run(op+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					disk := &faulty{op: op, path: at.name(), err: syscall.ENOSPC}
					d := folder{t.TempDir(), disk.step}
					x := opened(t, d, Config{MemtableFPs: 10, Waiting: 9})
					fill(t, x, 1, 41)
					x.Committed(41)
					synctest.Wait()
					_, err := x.Has(1)
					require.ErrorIs(t, err, syscall.ENOSPC)
					require.ErrorIs(t, x.Add(1, 42), syscall.ENOSPC)
					require.NoError(t, x.Close())
					disk.err = nil
					y := opened(t, d, Config{MemtableFPs: 10})
					require.Equal(t, at.last/40*40, y.Mark())
					requireRows(t, y, at.last/40*40)
				})
			})
		}
	}
}

// TestAddWaitsForTheDisk and not for commits.
func TestAddWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := held{make(chan struct{}), make(chan struct{})}
		d := folder{t.TempDir(), func(op, path string) error {
			if op == "create" && strings.Contains(path, span{0, 10}.name()) {
				close(h.reached)
				<-h.release
			}
			return nil
		}}
		x := opened(t, d, Config{MemtableFPs: 10, Waiting: 2})
		fill(t, x, 1, 40) // of none is known that it is committed
		x.Committed(20)
		<-h.reached
		added := make(chan error, 1)
		go func() { added <- x.Add(fingerprint(41), 41) }()
		synctest.Wait()
		require.Empty(t, added)
		close(h.release)
		require.NoError(t, <-added)
		synctest.Wait()
		require.Equal(t, int64(20), x.Mark())
	})
}

func TestWhatCannotBeRemovedIsRemovedByTheNextOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &faulty{op: "remove", err: syscall.EIO}
		d := folder{t.TempDir(), disk.step}
		x := opened(t, d, Config{MemtableFPs: 10})
		fill(t, x, 1, 45)
		x.Committed(45)
		synctest.Wait()
		requireRows(t, x, 45)
		require.Len(t, files(t, d), 5)
		require.NoError(t, x.Close())

		_, err := open(d, math.MaxInt64, Config{})
		require.ErrorIs(t, err, syscall.EIO)
		disk.err = nil
		x = opened(t, d, Config{})
		require.Equal(t, int64(40), x.Mark())
		require.Len(t, files(t, d), 1)
	})
}

func TestAnErrorOfReadingIsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := opened(t, folder{path: t.TempDir()}, Config{MemtableFPs: 10})
		fill(t, x, 1, 15)
		x.Committed(15)
		synctest.Wait()
		require.NoError(t, x.now.Load().runs[0].f.Close())
		_, err := x.Has(fingerprint(5))
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorIs(t, err, os.ErrClosed)
		require.True(t, errors.Is(x.Add(1, 16), ErrDamaged))
	})
}

// TestARunThatCannotBeOpenedIsNotDropped makes a difference between a run that is wrong and a
// system that does not let us look.
func TestARunThatCannotBeOpenedIsNotDropped(t *testing.T) {
	d, path := written(t, 10)
	loop := d.file(span{10, 20})
	require.NoError(t, os.Symlink(loop, loop))
	_, err := open(d, math.MaxInt64, Config{})
	require.ErrorIs(t, err, syscall.ELOOP)
	require.ErrorContains(t, err, loop)
	require.FileExists(t, path)
}
