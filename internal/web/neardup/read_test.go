package neardup

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/effort"
)

// read is what a page says, kept beyond the next one.
func read(page string) *Text {
	return new(Reader).Read([]byte(page), nil)
}

// Two pages that must read the same, and two that must not.
func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"case of ASCII", "Hello World", "hello WORLD", true},
		{"white space and signs", "one two, three", "one \n two – three", true},
		{"a space that does not break", "one\u00a0two", "one two", true},
		{"words", "one two", "one three", false},
		{"pairs of words", "one two one", "two one two", false},
		{"rows in another order", "<p>one two<p>three four", "<p>three four<p>one two", true},
		{"a word of another element", "<p>one<p>two", "<p>one two", false},
		{"attributes", `<p class=a title="b">one`, "<p>one", true},
		{"scripts", "one<script>var x = '<p>two'</script> ", "one<script>var y</script>", true},
		{"styles", "<STYLE>p {}</style>one", "<style></style>one", true},
		{"templates", "<template>one</template>two", "<template>three</template>two", true},
		{"comments", "<!-- one > two -->three", "<!---->three", true},
		{"a script that does not end", "one<script>two", "one<script>three", true},
		{"a sign that is no tag", "1 < 2", "1 2", true},
		{"umlauts", "über", "uber", false},
		{"a text without spaces", "東京都", "京東都", false},
		{"such a text within another", "the 東京 one", "the京東 one", false},
		{"pictures", `<img src="/a.png">`, `<img src="/b.png">`, false},
		{"a picture past caches", `<img src="/a.png?1">`, `<img alt=x src='/a.png?2'>`, true},
		{"a picture in the page", `<img src="data:x,1">`, `<img src="data:x,2">`, true},
		{"films", `<video src=/a>`, `<iframe src=/b>`, false},
		{"frames", `<iframe src=/a>`, `<source src=/a>`, true},
		{"numbers", "12 apples", "13 apples", false},
		{"names with a digit", "vec4 x", "vec8 x", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			features := func(page string) []uint64 {
				x := read(page)
				all := slices.Concat(x.Pairs, x.Runs, x.Numbers, x.Images)
				slices.Sort(all)
				return all
			}
			require.Equal(t, tc.same, slices.Equal(features(tc.a), features(tc.b)))
		})
	}
}

func TestReadCounts(t *testing.T) {
	x := read("<title>Not found</title><h1 id=a>  <b>Page 12</b> is gone</h1><h1>Other</h1><p>x1 2nd 3</p>")
	require.Equal(t, "Page 12", string(x.Heading))
	require.Len(t, x.Numbers, 3)
	require.Len(t, x.Pairs, 7)
	require.Empty(t, x.Images)
	require.Zero(t, x.SimHash(), "too short")
	require.Equal(t, 3, read(strings.Repeat("a B c 1 ", 50)).Different())
	require.Zero(t, read("12 13").Different())
	require.LessOrEqual(t, read(strings.Join(language{rand.New(rand.NewPCG(1, 1))}.text(9999), " ")).Different(), 64)
	long := strings.Repeat("one two three ", MinWords)
	require.NotZero(t, read(long).SimHash())
	require.Len(t, read(strings.Repeat("a ", 30)+"<!--").Pairs, 30)
	require.LessOrEqual(t, len(read(strings.Repeat("a ", MaxRead)).Pairs), MaxRead/2)
	require.Len(t, read("<h1>"+strings.Repeat("x", 1000)).Heading, maxHeading)
}

// A reader keeps nothing of a page for the next one.
func TestReaderIsReused(t *testing.T) {
	var r Reader
	pages := []string{"<h1>one two", "<script>", "three <h1", "<p>four 5 <img src=a>", strings.Repeat("six seven ", 2*maxKept), ""}
	for _, page := range append(pages, pages...) {
		got, want := r.Read([]byte(page), nil), read(page)
		require.True(t, slices.Equal(want.Runs, got.Runs))
		require.True(t, slices.Equal(want.Numbers, got.Numbers))
		require.Equal(t, want.SimHash(), got.SimHash())
		require.Equal(t, string(want.Heading), string(got.Heading))
	}
}

// The counters that stand upright are the same as 64 that do not.
func TestAccumulator(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	for _, n := range []int{0, 1, 2, 3, 7, 64, 1000, 30_000} {
		var a accumulator
		var plain [64]int
		for range n {
			h := r.Uint64() | r.Uint64()&1 // uneven
			if r.IntN(3) == 0 {
				h &= 0xff00ff
			}
			a.add(h)
			for i := range plain {
				plain[i] += int(h >> i & 1)
			}
		}
		var want uint64
		for i, c := range plain {
			if c > n/2 {
				want |= 1 << i
			}
		}
		require.Equal(t, want, a.majority(), "%d hashes", n)
	}
}

// language makes words like those of a text: some often, most rarely.
type language struct{ *rand.Rand }

func (l language) text(words int) []string {
	list := make([]string, words)
	for i := range list {
		// Zipf: the rank of a word is as likely as it is small.
		rank := int(float64(20_000) * l.Float64() * l.Float64() * l.Float64() * l.Float64())
		list[i] = fmt.Sprint("w", rank)
	}
	return list
}

// template is a page around a text: what sites put around, with a date, a counter and an advertisement.
func (l language) template(head, text []string) string {
	ad := []string{"buy shoes now", "cheap flights today", "the best coffee"}[l.IntN(3)]
	return fmt.Sprintf("<nav>%s</nav><p>%s</p><footer>seen %d times, made on %d May at %d:%d <b>%s</b></footer>",
		strings.Join(head, " "), strings.Join(text, " "), l.IntN(1_000_000), l.IntN(31), l.IntN(24), l.IntN(60), ad)
}

// TestNearPages: of pages whose date, counter and advertisement changed, nearly all are found near; of pages with
// texts of their own in the same template, none.
func TestNearPages(t *testing.T) {
	l := language{rand.New(rand.NewPCG(3, 4))} //nolint:gosec // the same each time
	for _, tc := range []struct {
		words  int     // of the text
		recall float64 // of pairs of pages that say the same, found; a little less than was measured
	}{{150, 0.65}, {400, 0.90}, {1000, 0.93}} {
		head := l.text(60)
		const pages = 300
		near, wrong := 0, 0
		var others []uint64
		for range pages {
			text := l.text(tc.words)
			a, b := read(l.template(head, text)).SimHash(), read(l.template(head, text)).SimHash()
			if Distance(a, b) <= 3 {
				near++
			}
			for _, o := range others {
				if Distance(a, o) <= 3 {
					wrong++
				}
			}
			others = append(others, a)
		}
		t.Logf("%d words: %d of %d found, %d of %d pairs taken for near", tc.words, near, pages, wrong, pages*(pages-1)/2)
		require.Zero(t, wrong)
		require.GreaterOrEqual(t, float64(near)/pages, tc.recall)
	}
}

func budget(steps int64) *effort.Budget {
	return effort.New(context.Background(), steps, nil, time.Time{})
}

// Each word and each tag is charged, with what is made of it later.
func TestReadingIsCharged(t *testing.T) {
	const n = 1000
	for page, least := range map[string]int64{
		strings.Repeat("a ", n):         3 * n,
		strings.Repeat("1 ", n):         3 * n,
		strings.Repeat("東", n):          3 * n,
		strings.Repeat("<b>", n):        n,
		strings.Repeat(". ", 100*n):     MaxRead / effort.Bytes,
		strings.Repeat("x", MaxRead):    MaxRead / effort.Bytes,
		"<!--" + strings.Repeat("x", n): n / effort.Bytes,
	} {
		b := budget(math.MaxInt64)
		new(Reader).Read([]byte(page), b)
		require.GreaterOrEqual(t, b.Used(), least, "%.20s", page)
		require.LessOrEqual(t, b.Used(), 2*least+100, "%.20s", page)
	}
}

// A budget that is spent ends the reading, and what was read is there.
func TestTheBudgetEndsTheReading(t *testing.T) {
	for _, s := range []string{"a ", "1 ", "東", "<img src=a>"} {
		b := budget(1500)
		x := new(Reader).Read([]byte(strings.Repeat(s, 5000)), b)
		require.True(t, b.Spent(), s)
		require.Less(t, b.Used(), int64(1510), s)
		found := len(x.Pairs) + len(x.Numbers) + len(x.Images)
		require.Positive(t, found, s)
		require.Less(t, found, 1500, s)
	}
}

// FuzzRead: what is read is as long as it says, the same each time, and costs any page a few steps for each byte.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"", "<", "<a", "</script", "<script><", "<!--", "<h1>x", "<img src=", "<img src='", "\xc2", "\xe6\x9d", "a\xe2", "<video src=a>"} {
		f.Add([]byte(s))
	}
	var r Reader
	f.Fuzz(func(t *testing.T, page []byte) {
		x := r.Read(page, nil)
		if len(x.Pairs)+len(x.Numbers) > len(page) || len(x.Runs) != len(x.Pairs) || len(x.Heading) > maxHeading {
			t.Errorf("%d pairs, %d numbers of %d bytes", len(x.Pairs), len(x.Numbers), len(page))
		}
		before := slices.Clone(x.Runs)
		if !slices.Equal(before, r.Read(page, nil).Runs) {
			t.Error("it reads otherwise the second time")
		}
		b := budget(math.MaxInt64)
		if r.Read(page, b); b.Used() > int64(1000+3*len(page)) {
			t.Errorf("%d steps for %d bytes", b.Used(), len(page))
		}
	})
}
