package keytable

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTable compares the table with a map, with so few hashes that most keys are pushed away from their own place.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tb Table[int, int]
		model := map[int]int{}
		key := rapid.IntRange(0, 60)
		hash := func(k int) uint64 { return uint64(k%7)*5 + 1 }
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if _, ok := model[k]; !ok { // a key is inserted once
					model[k] = len(model)
					tb.Insert(hash(k), k, model[k])
				}
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if _, ok := model[k]; ok {
					tb.Remove(tb.Find(hash(k), k))
					delete(model, k)
				}
			},
			"sweep": func(t *rapid.T) {
				first := rapid.Bool().Draw(t, "first")
				removed := tb.Sweep(rapid.IntRange(0, 100).Draw(t, "slots"), first, func(s *Slot[int, int]) bool {
					if s.Key%3 == 0 {
						require.Contains(t, model, s.Key)
						delete(model, s.Key)
					}
					return s.Key%3 == 0
				})
				require.True(t, removed <= 1 || !first)
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), tb.Len())
				for k, v := range model {
					require.Equal(t, v, tb.At(tb.Find(hash(k), k)).Value)
				}
				taken := 0
				for i, s := range tb.All() {
					require.Same(t, tb.At(i), s)
					require.Equal(t, model[s.Key], s.Value)
					taken++
				}
				require.Equal(t, len(model), taken)
				require.Negative(t, tb.Find(1, 61))
			},
		})
	})
}
