package seen

import (
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fingerprint is another for each i, and they are as uniform as a hash (the finalizer of
// MurmurHash3). That of zero is zero.
func fingerprint(i int64) uint64 {
	h := uint64(i)
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func opened(t *testing.T, dir string, cfg Config) *Index {
	t.Helper()
	x, err := Open(dir, math.MaxInt64, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

// fill adds the rows from one ID up to another, as the owner does.
func fill(t *testing.T, x *Index, from, to int64) {
	t.Helper()
	for id := from; id <= to; id++ {
		found, err := x.Has(fingerprint(id))
		require.NoError(t, err)
		require.False(t, found, "row %d", id)
		require.NoError(t, x.Add(fingerprint(id), id))
	}
}

// requireRows requires that the rows up to an ID are known, and a thousand others are not.
func requireRows(t *testing.T, x *Index, last int64) {
	t.Helper()
	for id := range last + 1000 {
		found, err := x.Has(fingerprint(id + 1))
		require.NoError(t, err)
		require.Equal(t, id < last, found, "row %d of %d", id+1, last)
	}
}

// tenWritten opens an index of 15 rows, ten of which are in its run.
func tenWritten(t *testing.T, dir string) *Index {
	t.Helper()
	x := opened(t, dir, Config{MemtableFPs: 10})
	fill(t, x, 1, 15)
	x.Committed(15)
	synctest.Wait()
	require.Equal(t, int64(10), x.Mark())
	return x
}
