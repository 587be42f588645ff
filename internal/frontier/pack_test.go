package frontier

import (
	"math/bits"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// FuzzPack: what is unpacked is what was packed, item by item, whatever URLs are neighbours.
func FuzzPack(f *testing.F) {
	f.Add("http://a.test/", "https://[::1]:8080/?", "http://a.test/list", int64(1), int64(0), int32(3), uint64(0))
	f.Add("http://a.test/a/b?c=%20", "http://a.test/a/b?d", "", int64(-1<<63), int64(-1<<63), int32(-1<<31), ^uint64(0))
	f.Add("no URL", "http://xn--bcher-kva/", "\xff\x00", int64(1<<62), int64(1<<62), int32(1<<31-1), uint64(0x123456789abcdef0))
	f.Fuzz(func(t *testing.T, first, second, referrer string, id, at int64, depth int32, what uint64) {
		var urls [2]canonical.URL // of those that are none the zero one
		urls[0], _ = canonical.Parse(first)
		urls[1], _ = canonical.Parse(second)
		items := make([]Item, blockLen)
		for i := range items {
			n := bits.RotateLeft64(what, i)
			it := Item{URL: urls[n&1], ID: id + int64(i), Found: Found{FoundOn: int64(n >> 60), Depth: depth, Seed: n&2 != 0}, Queued: time.Unix(at, 0)}
			if n&4 != 0 {
				it.URL, _ = it.URL.Resolve(strconv.Itoa(i))
			}
			if n&8 != 0 {
				it.Referrer, it.Queued, it.Rank = referrer, time.Unix(-at, int64(n)), int32(n)
			}
			if n&16 != 0 {
				it.Hops, it.Attempt, it.URLFailures, it.Forbidden, it.Kind = uint8(n>>8), uint8(n>>16), uint8(n>>24), uint8(n>>32), Sitemap
				it.Returns, it.Since, it.ID = uint16(n>>40), int32(n>>16), -it.ID
				it.Status, it.Class = uint16(n>>48), outcome.Class(n>>56)
			}
			if n&96 == 96 {
				it.Before, it.Origin = &Visit{Status: 200}, it.URL.Host()
			}
			items[i] = it
		}
		b := pack(items)
		got := b.unpack(nil)
		if len(got) != len(items) {
			t.Fatalf("%d items of %d", len(got), len(items))
		}
		for i, it := range got {
			if !it.Queued.Equal(items[i].Queued) {
				t.Fatalf("item %d was queued at %v, not %v", i, it.Queued, items[i].Queued)
			}
			if it.Queued = items[i].Queued; it != items[i] {
				t.Fatalf("item %d is %+v, not %+v", i, it, items[i])
			}
		}
	})
}

// An instant is the same still, where some are of the process's own clock and others came from
// elsewhere.
func TestPackKeepsTimes(t *testing.T) {
	base := time.Now()
	items := make([]Item, blockLen)
	for i := range items {
		items[i] = numbered(t, 1, int64(i))
		items[i].Queued = base.Add(time.Duration(i) * time.Millisecond)
		if i%8 == 7 {
			items[i].Queued = items[i].Queued.Round(0)
		}
	}
	b := pack(items)
	for i, it := range b.unpack(nil) {
		require.True(t, it.Queued.Equal(items[i].Queued), "%d", i)
		require.Equal(t, 2*time.Hour, base.Add(2*time.Hour+time.Duration(i)*time.Millisecond).Sub(it.Queued))
	}
}
