package frontier

import (
	"fmt"
	"math/bits"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

func numbered(t require.TestingT, page, n int64) Item {
	u, err := canonical.Parse(fmt.Sprintf("https://www.example.test:8443/reference/part-%02d/some-page-%06d.html", n%97, n))
	require.NoError(t, err)
	return Item{
		URL: u, Queued: time.UnixMilli(1_760_000_000_000 + page), ID: n,
		Found: Found{Referrer: fmt.Sprintf("https://www.example.test:8443/reference/list-%d.html", page), FoundOn: page, Depth: 3},
	}
}

// anyItem is an item that may differ in everything from the one before it.
func anyItem(t *rapid.T, n int64) Item {
	it := numbered(t, rapid.Int64Range(1, 4).Draw(t, "page"), n)
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0:
		it.Hops, it.Attempt, it.URLFailures, it.Forbidden = rapid.Uint8().Draw(t, "hops"), 3, 4, 5
		it.Returns, it.Since, it.Kind = rapid.Uint16().Draw(t, "returns"), rapid.Int32().Draw(t, "since"), Sitemap
	case 1:
		it.Seed, it.Referrer, it.FoundOn, it.Depth = true, "", 0, 0
		it.Queued = time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "at"), 0) // some are too far away to be coded
	case 2:
		it.Before = &Visit{Status: 200}
	case 3:
		it.Origin = it.URL.Origin()
	case 4:
		it.URL = canonical.URL{}
	case 5:
		it.ID, it.FoundOn, it.Depth = rapid.Int64().Draw(t, "id"), rapid.Int64().Draw(t, "found"), rapid.Int32().Draw(t, "depth")
	case 6:
		it.Queued = time.Time{}
	}
	return it
}

// A priorityQueue is the queue that sorting by rank makes, however long it is and at whichever end
// it is taken from, and no item comes out of it another than it went in.
func TestLadder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q priorityQueue
		levels := map[int32][]Item{}
		ends := func() (first, last int32) {
			first, last = 9, -9
			for rank := range levels {
				first, last = min(first, rank), max(last, rank)
			}
			return first, last
		}
		put := func(rank int32, rest []Item) {
			if levels[rank] = rest; len(rest) == 0 {
				delete(levels, rank)
			}
		}
		same := func(got, want Item) {
			if got != want { // and not by require, which takes far longer
				require.Equal(t, want, got)
				require.FailNow(t, "not the same instant")
			}
		}
		var n int64
		many := rapid.SampledFrom([]int{1, blockLen, unpackedMost, 3 * blockLen})
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			what, rank := rapid.IntRange(0, 3).Draw(t, "step"), rapid.Int32Range(-1, 0).Draw(t, "rank")
			for range many.Draw(t, "many") {
				if what > 1 && q.len() == 0 {
					break
				}
				first, last := ends()
				switch what {
				case 0, 1:
					n++
					it := numbered(t, n/7, n)
					if n%32 == 0 {
						it = anyItem(t, n)
					}
					it.Rank = rank
					q.push(it)
					levels[rank] = append(levels[rank], it)
				case 2:
					same(*q.front(), levels[first][0])
					same(q.pop(), levels[first][0])
					put(first, levels[first][1:])
				case 3:
					end := len(levels[last]) - 1
					same(*q.back(), levels[last][end])
					same(q.popBack(), levels[last][end])
					put(last, levels[last][:end])
				}
			}
			require.Equal(t, len(levels[-1])+len(levels[0]), q.len())
		}
		for q.len() > 0 {
			first, _ := ends()
			same(q.pop(), levels[first][0])
			put(first, levels[first][1:])
		}
		require.Empty(t, levels)
	})
}

// What waits in a long queue takes half of what its URL has as a string, neighbours or not.
func TestLongQueueIsSmall(t *testing.T) {
	var q fifo
	const n = 10_000
	for i := range int64(n) {
		q.push(numbered(t, i/2, i))
	}
	size := 0
	for _, b := range q.more.blocks {
		require.Empty(t, b.odd)
		size += len(b.data)
	}
	require.Less(t, size/(blockLen*len(q.more.blocks)), 40, "bytes an item")
	require.Less(t, len(q.items)+len(q.more.back), 2*unpackedMost)
	for range n {
		require.LessOrEqual(t, cap(q.items), 2*unpackedMost, "room for those that are packed")
		q.pop()
	}
}

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
			if n&128 != 0 {
				it.Request = referrer + "\n" + strconv.Itoa(int(n>>62))
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
