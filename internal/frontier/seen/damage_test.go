package seen

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func written(t testing.TB, n int64) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	var m memtable
	for id := int64(1); id <= n; id++ {
		m.Add(fingerprint(id))
	}
	r, err := writeRun(t.Context(), dir, header{keyCheck(0), n, n}, nil, m.sorted())
	require.NoError(t, err)
	require.NoError(t, r.f.Close())
	return dir, r.path
}

// TestAFlippedBitIsFound flips a bit in every 61st byte and in all around the seams, before the index is opened and, of a
// block, while it is open.
func TestAFlippedBitIsFound(t *testing.T) {
	const n = 2*perBlock + 10
	_, path := written(t, n)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := range whole {
		if seam := at % blockSize; at%61 > 0 && seam > 60 && seam < blockSize-8 {
			continue
		}
		bad := slices.Clone(whole)
		bad[at] ^= 1 << (at % 8)
		requireDropped(t, path, bad, "byte %d", at)
		if at >= blockSize {
			requireDamageShows(t, path, n, whole, bad)
		}
	}
}

func TestABlockOfAnotherPlaceIsFound(t *testing.T) {
	const n = 2 * perBlock
	_, path := written(t, n)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	_, longer := written(t, n+1)
	other, err := os.ReadFile(longer)
	require.NoError(t, err)
	header, first, second := whole[:blockSize], whole[blockSize:2*blockSize], whole[2*blockSize:]
	for name, blocks := range map[string][][]byte{
		"swapped":     {header, second, first},
		"twice":       {header, first, first},
		"another run": {header, other[blockSize : 2*blockSize], second},
	} {
		t.Run(name, func(t *testing.T) {
			bad := slices.Concat(blocks...)
			requireDropped(t, path, bad, name)
			requireDamageShows(t, path, n, whole, bad)
		})
	}
}

func TestFingerprintsThatDescendAreRefused(t *testing.T) {
	for _, at := range []int{1, perBlock} { // within a block, and from one to the next
		fps := make([]uint64, perBlock+1)
		for i := range fps {
			fps[i] = uint64(i + 1)
		}
		fps[at] = 0
		r, err := writeRun(t.Context(), t.TempDir(), header{keyCheck(0), 1, int64(len(fps))}, nil, fps)
		require.NoError(t, err)
		require.NoError(t, r.f.Close())
		requireDropped(t, r.path, nil, "at %d", at)
	}
}

// requireDropped opens an index with a run that is bad, or that is bad already if bad is nil.
func requireDropped(t *testing.T, path string, bad []byte, about ...any) {
	t.Helper()
	if bad != nil {
		require.NoError(t, os.WriteFile(path, bad, 0o600))
	}
	x, err := Open(filepath.Dir(path), math.MaxInt64, Config{})
	require.NoError(t, err)
	require.Zero(t, x.Mark(), about...)
	require.NoError(t, x.Close())
	require.Empty(t, files(t, filepath.Dir(path)), about...)
}

// requireDamageShows makes a run of n rows bad while the index is open.
func requireDamageShows(t *testing.T, path string, n int64, whole, bad []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	x, err := Open(filepath.Dir(path), math.MaxInt64, Config{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bad, 0o600))
	requireDamageFound(t, x, n)
	require.NoError(t, x.Close())
	require.Empty(t, files(t, filepath.Dir(path)))
}

// TestThePaddingIsEmpty makes a run depend on nothing but its fingerprints.
func TestThePaddingIsEmpty(t *testing.T) {
	_, path := written(t, perBlock+3)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 8*(perBlock-3)), whole[2*blockSize+24:3*blockSize-sumSize-4])
}

// TestACountThatOverflowsIsRefused takes one whose file would be shorter than the count.
func TestACountThatOverflowsIsRefused(t *testing.T) {
	h := header{0, 1, 1 << 62}
	require.Positive(t, h.size())
	_, err := decodeHeader(h.encode(), h.size())
	require.ErrorIs(t, err, ErrDamaged)
}

// requireDamageFound asks for every row, one of which hits the damage.
func requireDamageFound(t *testing.T, x *Index, n int64) {
	t.Helper()
	require.Equal(t, n, x.Mark())
	var damage error
	for id := int64(1); id <= n && damage == nil; id++ {
		var found bool
		if found, damage = x.Has(fingerprint(id)); damage == nil {
			require.True(t, found, "row %d", id)
		}
	}
	require.ErrorIs(t, damage, ErrDamaged)
	_, err := x.Has(12345)
	require.ErrorIs(t, err, ErrDamaged, "it stays")
	require.ErrorIs(t, x.Add(12345, n+1), ErrDamaged)
}

func TestAFileThatIsNotOursIsDropped(t *testing.T) {
	garbage := make([]byte, 3*blockSize)
	for _, c := range []struct {
		name  string
		spoil func(path string) error
		cfg   Config
	}{
		{name: "other key", cfg: Config{Key: 1}},
		{name: "cut short", spoil: func(path string) error { return os.Truncate(path, 5000) }},
		{name: "cut to nothing", spoil: func(path string) error { return os.Truncate(path, 0) }},
		{name: "one byte more", spoil: func(path string) error { return os.Truncate(path, 2*blockSize+1) }},
		{name: "garbage", spoil: func(path string) error { return os.WriteFile(path, garbage, 0o600) }},
		{name: "a directory", spoil: func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }},
		{name: "other rows", spoil: func(path string) error {
			return os.Rename(path, filepath.Join(filepath.Dir(path), "0000000000000063.run"))
		}},
		{name: "no name", spoil: func(path string) error { return os.Rename(path, filepath.Join(filepath.Dir(path), "1-2.run")) }},
		{name: "gone", spoil: os.Remove},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, path := written(t, 100)
			if c.spoil != nil {
				require.NoError(t, c.spoil(path))
			}
			x := opened(t, dir, c.cfg)
			require.Zero(t, x.Mark())
			require.Zero(t, x.count())
			requireRows(t, x, 0)
			require.Empty(t, files(t, dir))
		})
	}
}

func TestFilesOfOthersAreLeftAlone(t *testing.T) {
	dir, _ := written(t, 10)
	note := filepath.Join(dir, "README")
	require.NoError(t, os.WriteFile(note, nil, 0o600))
	x := opened(t, dir, Config{})
	require.Equal(t, int64(10), x.Mark())
	require.NoError(t, x.Close())
	x, err := Open(dir, 9, Config{})
	require.NoError(t, err)
	require.NoError(t, x.Close())
	require.Zero(t, x.Mark(), "it knew of more than there is")
	require.Equal(t, []string{note}, files(t, dir))
}

// TestAWriteFindsDamage makes a block bad of a run that is about to be merged into the next.
func TestAWriteFindsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		x := tenWritten(t, dir)
		f, err := os.OpenFile(x.now.Load().run.path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{1, 2, 3}, blockSize+77)
		require.NoError(t, err)
		require.NoError(t, f.Close())

		for id := int64(16); id <= 21; id++ {
			require.NoError(t, x.Add(fingerprint(id), id))
		}
		x.Committed(21)
		synctest.Wait()
		_, err = x.Has(fingerprint(21))
		require.ErrorIs(t, err, ErrDamaged)
		require.NoError(t, x.Close())
		require.Empty(t, files(t, dir))
	})
}

// FuzzRun reads files that somebody has spoilt. No reader panics, none takes memory for a
// lie, and a file that is accepted to its last block is the one that was written.
func FuzzRun(f *testing.F) {
	const n = perBlock + 7
	_, path := written(f, n)
	whole, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(whole, uint16(0), uint16(0))
	f.Add(whole[:blockSize], uint16(9), uint16(1))
	f.Add([]byte(magic), uint16(0), uint16(0))
	f.Add(header{keyCheck(0), n, 1 << 60}.encode(), uint16(0), uint16(0))
	scratch := filepath.Join(f.TempDir(), filepath.Base(path))
	f.Fuzz(func(t *testing.T, content []byte, at, flip uint16) {
		for _, b := range [][]byte{content, flipped(whole, at, flip)} {
			require.NoError(t, os.WriteFile(scratch, b, 0o600))
			if accepted(t, scratch) {
				require.Equal(t, whole, b)
			}
		}
	})
}

func flipped(whole []byte, at, flip uint16) []byte {
	b := append([]byte(nil), whole...)
	if int(at)+1 >= len(b) {
		return b[:int(flip)%len(b)]
	}
	b[at] ^= byte(flip)
	b[at+1] ^= byte(flip >> 8)
	return b
}

func accepted(t *testing.T, path string) bool {
	t.Helper()
	r, err := openRun(path, keyCheck(0))
	if err != nil {
		require.ErrorIs(t, err, ErrDamaged)
		return false
	}
	require.NoError(t, r.f.Close())
	return true
}
