package seen

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func written(t testing.TB, n int64) (folder, string) {
	t.Helper()
	d := folder{path: t.TempDir()}
	m := &memtable{span: span{0, n}}
	for id := int64(1); id <= n; id++ {
		m.Add(fingerprint(id))
	}
	r, err := writeRun(d, header{keyCheck(0), m.span, n}, adding(m.sorted()))
	require.NoError(t, err)
	require.NoError(t, r.f.Close())
	return d, d.file(m.span)
}

func adding(fps []uint64) func(func(uint64) error) error {
	return func(add func(uint64) error) error {
		for _, fp := range fps {
			if err := add(fp); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestAFlippedBitIsFound flips a bit in every 61st byte and in all around the seams: what lies
// outside the blocks is found by Open, what lies in them when it is read.
func TestAFlippedBitIsFound(t *testing.T) {
	const n = 2*perBlock + 10
	d, path := written(t, n)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := range whole {
		if seam := at % blockSize; at%61 > 0 && seam > 60 && seam < blockSize-8 && at < len(whole)-8 {
			continue
		}
		bad := append([]byte(nil), whole...)
		bad[at] ^= 1 << (at % 8)
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		x, err := open(d, math.MaxInt64, Config{})
		require.NoError(t, err)
		if at < blockSize || at >= 4*blockSize {
			require.Zero(t, x.Mark(), "byte %d", at)
		} else {
			requireDamageFound(t, x, n)
		}
		require.NoError(t, x.Close())
		require.Empty(t, files(t, d), "byte %d", at)
	}
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
	h := header{0, span{0, 1}, 1 << 62}
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
		spoil func(d folder, path string) error
		cfg   Config
	}{
		{name: "other key", cfg: Config{Key: 1}},
		{name: "cut short", spoil: func(_ folder, path string) error { return os.Truncate(path, 5000) }},
		{name: "cut to nothing", spoil: func(_ folder, path string) error { return os.Truncate(path, 0) }},
		{name: "one byte more", spoil: func(_ folder, path string) error { return os.Truncate(path, 2*blockSize+8+64*3+5) }},
		{name: "garbage", spoil: func(_ folder, path string) error { return os.WriteFile(path, garbage, 0o600) }},
		{name: "a directory", spoil: func(_ folder, path string) error { return os.Rename(filepath.Dir(path), path) }},
		{name: "other rows", spoil: func(d folder, path string) error { return os.Rename(path, d.file(span{0, 99})) }},
		{name: "no predecessor", spoil: func(d folder, path string) error { return os.Rename(path, d.file(span{1, 100})) }},
		{name: "no name", spoil: func(d folder, path string) error { return os.Rename(path, filepath.Join(d.path, "1-2.run")) }},
		{name: "gone", spoil: func(_ folder, path string) error { return os.Remove(path) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, path := written(t, 100)
			if c.name == "a directory" {
				require.NoError(t, os.Remove(path))
				require.NoError(t, os.Mkdir(path, 0o700))
			} else if c.spoil != nil {
				require.NoError(t, c.spoil(d, path))
			}
			x := opened(t, d, c.cfg)
			require.Zero(t, x.Mark())
			require.Zero(t, x.count())
			requireRows(t, x, 0)
			require.Empty(t, files(t, d))
		})
	}
}

func TestFilesOfOthersAreLeftAlone(t *testing.T) {
	d, _ := written(t, 10)
	note := filepath.Join(d.path, "README")
	require.NoError(t, os.WriteFile(note, nil, 0o600))
	x := opened(t, d, Config{})
	require.Equal(t, int64(10), x.Mark())
	require.NoError(t, x.Close())
	x, err := open(d, 9, Config{})
	require.NoError(t, err)
	require.NoError(t, x.Close())
	require.Zero(t, x.Mark(), "it knew of more than there is")
	require.Equal(t, []string{note}, files(t, d))
}

// TestAMergeFindsDamage makes one block bad of four runs that are about to be merged.
func TestAMergeFindsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := folder{path: t.TempDir()}
		x := opened(t, d, Config{MemtableFPs: 10})
		fill(t, x, 1, 35)
		x.Committed(35)
		synctest.Wait()
		f, err := os.OpenFile(d.file(span{10, 20}), os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{1, 2, 3}, blockSize+77)
		require.NoError(t, err)
		require.NoError(t, f.Close())

		fill(t, x, 36, 41)
		x.Committed(41)
		synctest.Wait()
		_, err = x.Has(fingerprint(41))
		require.ErrorIs(t, err, ErrDamaged)
		require.NoError(t, x.Close())
		require.Empty(t, files(t, d))
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
	f.Add(header{keyCheck(0), span{0, n}, 1 << 60}.encode(), uint16(0), uint16(0))
	scratch := filepath.Join(f.TempDir(), span{0, n}.name())
	f.Fuzz(func(t *testing.T, content []byte, at, flip uint16) {
		for _, b := range [][]byte{content, flipped(whole, at, flip)} {
			require.NoError(t, os.WriteFile(scratch, b, 0o600))
			if accepted(t, filepath.Dir(scratch), n) {
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

func accepted(t *testing.T, dir string, n int64) bool {
	t.Helper()
	r, err := openRun(folder{path: dir}, span{0, n}, keyCheck(0))
	if err != nil {
		require.ErrorIs(t, err, ErrDamaged)
		return false
	}
	defer func() { require.NoError(t, r.f.Close()) }()
	c := &cursor{r: r}
	for more := true; more; {
		if more, err = c.next(); err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return false
		}
	}
	return true
}

// TestAMissingRunEndsTheChain keeps what comes before the gap.
func TestAMissingRunEndsTheChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := folder{path: t.TempDir()}
		x := opened(t, d, Config{MemtableFPs: 10})
		fill(t, x, 1, 31)
		x.Committed(31)
		synctest.Wait()
		require.NoError(t, x.Close())
		require.NoError(t, os.Remove(d.file(span{10, 20})))
		x = opened(t, d, Config{})
		require.Equal(t, int64(10), x.Mark())
		requireRows(t, x, 10)
		require.Len(t, files(t, d), 1)
	})
}

func TestAWriterTakesWhatItsHeaderSays(t *testing.T) {
	d := folder{path: t.TempDir()}
	for _, fps := range [][]uint64{{5, 4, 6}, {4, 5}, {4, 5, 6, 7}} {
		_, err := writeRun(d, header{0, span{0, 3}, 3}, adding(fps))
		require.ErrorIs(t, err, ErrDamaged, "%v", fps)
		require.Empty(t, files(t, d))
	}
}
