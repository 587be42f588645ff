package sink

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/items"
	"github.com/treadlight/crawl/record"
)

// The summary has the fields that items lack, also those that none has.
func TestItemsSummary(t *testing.T) {
	w := must(New(io.Discard, Config{}))
	s := NewItems(w, ItemsConfig{Kinds: []string{"product", "review"}, Fields: map[string][]string{"product": {"name", "price", "shop"}}})
	write := func(kind string, fields ...string) {
		e := &record.Extracted{Kind: kind}
		for _, name := range fields {
			e.Fields = append(e.Fields, record.Values{Name: name, Values: []string{"x"}})
		}
		require.NoError(t, s.WriteItem(nil, record.Item{Value: e, JSON: []byte("{}")}))
	}
	require.Empty(t, s.Summary())
	write("product", "name", "price")
	write("product", "name")
	write("review")
	require.Equal(t, []string{"2 of product, 1 without price, 2 without shop", "1 of review"}, s.Summary())
	require.NoError(t, s.Close())
}

// Items without a name are counted as a person counts them.
func TestItemsWithoutAName(t *testing.T) {
	w := must(New(io.Discard, Config{Format: JSONL}))
	s := NewItems(w, ItemsConfig{Kinds: []string{unnamed}})
	for _, want := range []string{"1 item", "2 items"} {
		require.NoError(t, s.WriteItem(nil, record.Item{Value: &record.Extracted{Kind: items.DefaultName}, JSON: []byte("{}")}))
		require.Equal(t, []string{want}, s.Summary())
	}
}
