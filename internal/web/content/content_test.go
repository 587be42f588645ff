package content

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/record"
)

func newReader(t *testing.T, o Options, now func() time.Time) *Reader {
	t.Helper()
	r, err := NewReader(&o, now)
	require.NoError(t, err)
	return r
}

// Of a page that was not read to its end no fingerprint is made, as others that begin alike would
// be near it, and its record says that it was cut short.
func TestFingerprintsOfPagesThatCostTooMuch(t *testing.T) {
	u, err := canonical.Parse("http://h.test/")
	require.NoError(t, err)
	doc := extract.Document{URL: u, MediaType: "text/html", Body: []byte("<title>x</title>" + strings.Repeat("<p>some words of a page ", 200))}
	reader := newReader(t, Options{Duplicates: neardup.NewIndex(3)}, time.Now)
	whole := int64(0)
	for _, steps := range []int64{math.MaxInt64, 0, 0} {
		var rec record.Record
		if steps == 0 {
			steps = whole - 500 // enough for the links, and not for the words
		}
		budget := effort.New(t.Context(), steps, nil, time.Time{})
		require.True(t, reader.Read(&doc, budget, &rec, ""))
		if whole == 0 {
			whole = budget.Used()
			require.NotEmpty(t, rec.SimHash)
			continue
		}
		require.True(t, budget.Spent())
		require.Empty(t, rec.SimHash)
		require.NotEmpty(t, rec.Title)
	}
}

// What a page may cost is set: its elements, its steps with them, and its time.
func TestCostOfAPageIsSet(t *testing.T) {
	for _, tc := range []struct {
		elements int
		time     time.Duration
		steps    int64
		until    time.Duration
	}{
		{0, 0, stepsPerElement * dom.MaxElements, 2 * time.Second},
		{1000, 0, stepsPerElement * 1000, 2 * time.Second},
		{0, 7 * time.Second, stepsPerElement * dom.MaxElements, 7 * time.Second},
	} {
		clk := clocktest.NewFake(time.Unix(1000, 0))
		reader := newReader(t, Options{Tree: Tree{MaxElements: tc.elements}, PageTime: tc.time}, clk.Now)
		b := reader.Budget(t.Context(), 1<<30)
		require.True(t, b.Spend(int(tc.steps)-1))
		require.False(t, b.Spend(2))
		b = reader.Budget(t.Context(), 1<<30)
		clk.Advance(tc.until - 1)
		require.True(t, b.Spend(int(tc.steps/2)))
		clk.Advance(1)
		require.False(t, b.Spend(int(tc.steps/4)))
	}
}
