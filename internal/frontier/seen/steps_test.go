package seen

import (
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

// TestAResetThatStopsLeavesAChain lets the removal of each run fail in turn, and looks at the
// order of steps to what a power cut asks for.
func TestAResetThatStopsLeavesAChain(t *testing.T) {
	for removed, mark := range []int64{60, 50, 40, 0} {
		synctest.Test(t, func(t *testing.T) {
			removals, stop := 0, false
			var last string
			d := folder{t.TempDir(), nil}
			d.step = func(op, path string) error {
				last = op + " " + path
				if stop && op == "remove" {
					if removals++; removals > removed {
						return syscall.EIO
					}
				}
				return nil
			}
			x := opened(t, d, Config{MemtableFPs: 10, Waiting: 6})
			fill(t, x, 1, 61)
			x.Committed(61)
			synctest.Wait()
			require.Len(t, files(t, d), 3)
			stop = true
			if err := x.Reset(); removed == 3 {
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

// TestAKillAtEveryStep looks at the directory as it is before each step, which is what a kill
// there would leave.
func TestAKillAtEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type kill struct {
			dir       string
			committed int64
		}
		var kills []kill
		var committed int64
		root := t.TempDir()
		d := folder{filepath.Join(root, "seen"), nil}
		d.step = func(string, string) error {
			at, err := os.MkdirTemp(root, "kill")
			if err == nil {
				err = os.CopyFS(at, os.DirFS(d.path))
			}
			kills = append(kills, kill{at, committed})
			return err
		}
		x := opened(t, d, Config{MemtableFPs: 3})
		for id := int64(1); id <= 60; id++ {
			fill(t, x, id, id)
			if id%7 == 0 {
				synctest.Wait() // nobody else reads it then
				committed = id
				x.Committed(id)
			}
		}
		synctest.Wait()
		require.Greater(t, len(kills), 120)
		for _, k := range kills {
			y, err := open(folder{path: k.dir}, Config{MemtableFPs: 3})
			require.NoError(t, err)
			require.LessOrEqual(t, y.Mark(), k.committed)
			requireRows(t, y, y.Mark())
			fill(t, y, y.Mark()+1, k.committed)
			y.Committed(k.committed)
			synctest.Wait()
			requireRows(t, y, k.committed)
			require.NoError(t, y.Close())
		}
	})
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
		require.NoError(t, x.Err())
		require.Len(t, files(t, d), 4)

		x = opened(t, folder{path: d.path}, Config{MemtableFPs: 10})
		require.Equal(t, int64(40), x.Mark())
		synctest.Wait()
		require.Len(t, files(t, d), 1, "merged after all")
		requireRows(t, x, 40)
	})
}
