package seen

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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
