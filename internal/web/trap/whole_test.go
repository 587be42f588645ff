package trap

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listing is a site of numbered pages: index pages in a chain lead to fifty each.
func listing(pages int, url func(i int) string, page func(i int) *paper) func(path string) *paper {
	byPath := map[string]int{}
	for i := range pages {
		byPath[url(i)] = i
	}
	return func(path string) *paper {
		if i, ok := byPath[path]; ok {
			return page(i)
		}
		n := 0
		_, _ = fmt.Sscanf(path, "/index/%d", &n)
		p := &paper{title: fmt.Sprint("Index, page ", n), text: frame}
		for i := n * 50; i < min((n+1)*50, pages); i++ {
			p.links = append(p.links, url(i))
			p.text += "<li>" + page(i).title + "</li>"
		}
		if (n+1)*50 < pages {
			p.links = append(p.links, fmt.Sprintf("/index/%d", n+1))
		}
		return p
	}
}

// What is no trap is visited whole, whatever it looks like.
func TestNoTraps(t *testing.T) {
	texts := func(words int) func(i int) *paper {
		return func(i int) *paper { return article(fmt.Sprint("text", i), words) }
	}
	for _, tc := range []struct {
		name  string
		pages int
		url   func(i int) string
		page  func(i int) *paper
	}{
		{"an archive by number", 10_000, func(i int) string { return fmt.Sprint("/article/", i) }, texts(40)},
		{"an archive by parameter", 5000, func(i int) string { return fmt.Sprintf("/wiki/index.php?curid=%d&lang=en", i*7) }, texts(60)},
		{"ten years by day", 3650, func(i int) string { return fmt.Sprintf("/blog/%d/%02d/%02d/", 2016+i/365, 1+i%365/31, 1+i%365%31) }, texts(60)},
		{"a newspaper since 1850", 5000, func(i int) string { return fmt.Sprintf("/paper/%d-%02d-%02d/ed-1", 1850+i/336, 1+i%336/28, 1+i%336%28) }, texts(80)},
		{"a forum by page", 4000, func(i int) string { return fmt.Sprintf("/forum/thread-%d?page=%d", i/20, i%20+1) }, func(i int) *paper {
			p := texts(120)(i)
			p.title = prose(fmt.Sprint("thread", i/20), 4) // the same on all of its pages
			return p
		}},
		{"a deep manual", 3000, func(i int) string {
			return fmt.Sprintf("/doc/libs/1_89_0/libs/%s/doc/html/%s/reference/%s/overload%d.html", prose(fmt.Sprint(i/100), 1)[:4], prose(fmt.Sprint(i/10), 1)[:4], prose(fmt.Sprint("c", i), 1)[:4], i)
		}, texts(30)},
		{"languages", 3000, func(i int) string {
			return fmt.Sprintf("/%s/page/%s-%d", strings.Fields("en de fr pt-br zh-hans")[i%5], prose("slug", 1)[:4], i/5)
		}, texts(70)},
		{"a catalogue with a name and a price each", 5000, func(i int) string { return fmt.Sprint("/product/", i, ".html") }, func(i int) *paper {
			name := prose(fmt.Sprint("name", i), 2)
			return &paper{title: name + "- Shop", text: frame + "<h1>" + name + "</h1>" + fmt.Sprintf("Price %d.99, in stock.", i%100)}
		}},
		{"a gallery without a word", 3000, func(i int) string { return fmt.Sprint("/photo/", i) }, func(i int) *paper {
			return &paper{title: "Photo", text: frame + fmt.Sprintf(`<img src="/full/IMG_%d.jpg?w=800">`, i)}
		}},
		{"videos by an id that looks random", 3000, func(i int) string {
			return fmt.Sprintf("/watch?id=%x", rand.New(rand.NewPCG(uint64(i), 5)).Uint64()|1<<63) //nolint:gosec // the same each time
		}, texts(60)},
		{"a list of the same names under other letters", 2000, func(i int) string { return fmt.Sprintf("/names/%c/%d", 'a'+i%26, i/26) }, texts(25)},
		{"pages that are short", 3000, func(i int) string { return fmt.Sprint("/word/", i) }, func(i int) *paper {
			return &paper{title: "Dictionary", text: prose(fmt.Sprint("short", i), 3)}
		}},
		{"questions with their titles in the path", 4000, func(i int) string {
			return fmt.Sprintf("/questions/%d/%s", i, strings.TrimSpace(strings.ReplaceAll(prose(fmt.Sprint("q", i), 4), " ", "-")))
		}, texts(50)},
		{"half of the pages are empty", 4000, func(i int) string { return fmt.Sprint("/user/", i) }, func(i int) *paper {
			if i%2 == 0 {
				return &paper{title: "User", text: frame + "This user has written nothing."}
			}
			return texts(30)(i)
		}},
		{"a reference whose names are made of parts", 4000, func(i int) string {
			return fmt.Sprintf("/ref/fn.%s_%s%d.html", prose(fmt.Sprint("op", i/16), 1)[:4], strings.Fields("u8 u16 i8 i16")[i%4], i%16/4)
		}, func(i int) *paper {
			name := fmt.Sprintf("%s_%s_x%d", prose(fmt.Sprint("op", i/16), 1), strings.Fields("u8 u16 i8 i16")[i%4], i%16/4)
			return &paper{title: name + " - Reference", text: frame + "<h1>Function " + name + "</h1><p>See the manual of the processor.</p>"}
		}},
		{"texts of sixty-four words", 5000, func(i int) string { return fmt.Sprint("/p/", i) }, func(i int) *paper {
			r, text := draw(fmt.Sprint(i)), ""
			for range 40 {
				text += prose(fmt.Sprint("word", r.IntN(64)), 1)
			}
			return &paper{title: text[:12], text: text}
		}},
		{"pages made by scripts", 2000, func(i int) string { return fmt.Sprint("/app/", i) }, func(int) *paper {
			return &paper{title: "App", text: "<div id=root></div>Please turn on scripts."}
		}},
		{"tables of figures", 3000, func(i int) string { return fmt.Sprint("/station/", i) }, func(i int) *paper {
			r, rows := draw(fmt.Sprint(i)), ""
			for range 24 {
				rows += fmt.Sprintf("<td>%d</td>", r.IntN(100_000))
			}
			return &paper{title: "Station", text: frame + rows}
		}},
		{"a search with results", 4000, func(i int) string {
			return fmt.Sprintf("/search?q=%s&p=%d", strings.TrimSpace(prose(fmt.Sprint(i/10), 1)), i%10)
		}, texts(90)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := walk(t, Config{}, 1<<30, listing(tc.pages, tc.url, tc.page), "/index/0")
			t.Logf("%d fetched, %d read, refused %v", len(v.fetched), v.read, v.refused)
			require.Equal(t, [NumDecisions]int{}, v.refused)
			require.Less(t, v.read, 1000, "reading costs")
			urls := map[string]bool{}
			for i := range tc.pages {
				urls[tc.url(i)] = true
			}
			require.Equal(t, len(urls)+(tc.pages+49)/50, len(v.fetched))
		})
	}
}
