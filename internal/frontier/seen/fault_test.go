package seen

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A run that cannot be written ends the index, and the next finds all that was written before.
func TestARunThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "seen")
		x := opened(t, dir, Config{MemtableFPs: 10})
		fill(t, x, 1, 25)
		x.Committed(10)
		synctest.Wait()
		require.Equal(t, int64(10), x.Mark())
		require.NoError(t, os.Rename(dir, dir+" elsewhere"))
		require.NoError(t, os.WriteFile(dir, nil, 0o600))
		fill(t, x, 26, 31)
		x.Committed(31)
		synctest.Wait()
		_, err := x.Has(1)
		require.ErrorIs(t, err, syscall.ENOTDIR)
		require.ErrorIs(t, x.Add(1, 32), syscall.ENOTDIR)
		require.NoError(t, x.Close())

		require.NoError(t, errors.Join(os.Remove(dir), os.Rename(dir+" elsewhere", dir)))
		x = opened(t, dir, Config{})
		require.Equal(t, int64(10), x.Mark())
		requireRows(t, x, 10)
	})
}

// A kill leaves half a run, or the one that was to be replaced beside it.
func TestOpenRemovesWhatAKillLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		x := tenWritten(t, dir)
		before := x.now.Load().run.path
		old, err := os.ReadFile(before)
		require.NoError(t, err)
		fill(t, x, 16, 25)
		x.Committed(25)
		synctest.Wait()
		require.NoError(t, x.Close())
		require.Len(t, files(t, dir), 1, "what was replaced is gone")
		require.NoError(t, os.WriteFile(before, old, 0o600))
		require.NoError(t, os.WriteFile(files(t, dir)[1]+".17.tmp", old[:5000], 0o600))

		x = opened(t, dir, Config{})
		require.Equal(t, int64(20), x.Mark())
		require.Len(t, files(t, dir), 1)
		requireRows(t, x, 20)
		require.NoError(t, x.Close())

		require.NoError(t, os.WriteFile(before, old, 0o600))
		x, err = Open(dir, 19, Config{})
		require.NoError(t, err)
		require.Equal(t, int64(10), x.Mark(), "of the other more is there than in the database")
		requireRows(t, x, 10)
		require.NoError(t, x.Close())
	})
}

// Close ends the merge of a run with a memtable, leaves no file of the new run, and keeps the run of before.
func TestCloseGivesUpAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		x := tenWritten(t, dir)
		x.stop() // as Close does, before the write begins
		fill(t, x, 16, 21)
		x.Committed(21)
		require.NoError(t, x.Close())
		require.Len(t, files(t, dir), 1)
		x = opened(t, dir, Config{})
		require.Equal(t, int64(10), x.Mark())
		requireRows(t, x, 10)
	})
}

// A run may be replaced, and its file closed, after a lookup has chosen it. The lookup then reads the new one.
func TestARunIsReplacedDuringALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := tenWritten(t, t.TempDir())
		before := x.now.Load()
		fill(t, x, 16, 25)
		x.Committed(25)
		synctest.Wait()
		require.Equal(t, int64(20), x.Mark())
		found, err := x.lookup(before, fingerprint(5))
		require.NoError(t, err)
		require.True(t, found)
	})
}

func TestAnErrorOfReadingIsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := tenWritten(t, t.TempDir())
		require.NoError(t, x.now.Load().run.f.Close())
		_, err := x.Has(fingerprint(5))
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorIs(t, err, os.ErrClosed)
		require.True(t, errors.Is(x.Add(1, 16), ErrDamaged))
	})
}

// TestARunThatCannotBeOpenedIsNotDropped makes a difference between a run that is wrong and a
// system that does not let us look.
func TestARunThatCannotBeOpenedIsNotDropped(t *testing.T) {
	dir, path := written(t, 10)
	loop := filepath.Join(dir, "zzz.run")
	require.NoError(t, os.Symlink(loop, loop))
	_, err := Open(dir, math.MaxInt64, Config{})
	require.ErrorIs(t, err, syscall.ELOOP)
	require.ErrorContains(t, err, loop)
	require.FileExists(t, path)
}
