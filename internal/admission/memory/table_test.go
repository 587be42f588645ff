package memory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/admission"
)

// TestTable compares the table with a map, with so few hashes that most keys are pushed
// away from their own place.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tb table
		model := map[string]uint64{}
		hashOf := func(key string) uint64 { return uint64(key[0]-'a') / 3 * 5 }
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				key := rapid.StringMatching("[a-z]").Draw(t, "key")
				if _, ok := model[key]; ok {
					return // a key is inserted once
				}
				model[key] = hashOf(key)
				tb.insert(slot{hash: hashOf(key), key: key, first: account{plan: "p"}})
			},
			"remove": func(t *rapid.T) {
				key := rapid.StringMatching("[a-z]").Draw(t, "key")
				i := tb.find(hashOf(key), key)
				_, ok := model[key]
				require.Equal(t, ok, i >= 0)
				if ok {
					tb.remove(i)
					delete(model, key)
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), tb.n)
				require.LessOrEqual(t, tb.n, len(tb.slots)/4*3)
				for key, hash := range model {
					i := tb.find(hash, key)
					require.GreaterOrEqual(t, i, 0, key)
					require.Equal(t, key, tb.slots[i].key)
				}
				taken := 0
				for i := range tb.slots {
					if tb.slots[i].taken() {
						taken++
					}
				}
				require.Equal(t, len(model), taken)
			},
		})
	})
}

// TestSlotUsesPlacesAgain has an operator replace plans by others of new names: a key
// keeps accounts of those only that count, and for a while of those that did.
func TestSlotUsesPlacesAgain(t *testing.T) {
	var s slot
	now := admission.Micros(0)
	for i := range 1000 {
		p := admission.Plan{Name: fmt.Sprint(i), Kind: admission.KindTokenBucket, Capacity: 1, TokensPerSecond: 1}
		var res admission.Result
		s.takeAll([]admission.Plan{p}, now, 1, &res)
		require.True(t, res.Allowed)
		now += keepFor / 4
	}
	require.LessOrEqual(t, len(s.more), 6)
}
