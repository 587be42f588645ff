package trap

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
)

const thisYear = 2026

// paper is a page of a site: what it says and where it leads.
type paper struct {
	title, text string
	links       []string
}

// visitors is what became of a crawl of a site without a network.
type visitors struct {
	fetched map[string]bool
	refused [NumDecisions]int
	read    int
}

// in counts the pages that were fetched of those whose URLs contain a text.
func (v *visitors) in(part string) (n int) {
	for u := range v.fetched {
		if strings.Contains(u, part) {
			n++
		}
	}
	return n
}

// walk crawls a site first in, first out, until nothing is left or so many pages were had.
func walk(t testing.TB, cfg Config, most int, site func(path string) *paper, seeds ...string) *visitors {
	t.Helper()
	j := New(cfg)
	v := &visitors{fetched: map[string]bool{}}
	known := map[canonical.URL]bool{}
	var queue []canonical.URL
	for _, s := range seeds {
		u, err := canonical.Parse("http://a.test" + s)
		require.NoError(t, err)
		known[u] = true
		queue = append(queue, u)
	}
	var reader neardup.Reader
	for ; len(queue) > 0 && len(v.fetched) < most; queue = queue[1:] {
		u := queue[0]
		if why := j.CheckQueued(u); why != Follow {
			v.refused[why]++
			continue
		}
		v.fetched[u.Path()] = true
		p := site(u.Path())
		if p == nil {
			continue
		}
		if look := j.RecordVisit(u, p.title); look.Read {
			v.read++
			text := reader.Read([]byte("<html><title>"+p.title+"</title><body>"+p.text+"</body></html>"), nil)
			j.RecordText(&look, text, SaysNotFound(p.title) || SaysNotFound(string(text.Heading)))
		}
		for _, ref := range p.links {
			to, err := u.Resolve(ref)
			if err != nil || known[to] || to.Host() != u.Host() {
				continue
			}
			if why := j.CheckLink(to, thisYear); why != Follow && !j.AllowProbe(to) {
				v.refused[why]++
				continue
			}
			known[to] = true
			queue = append(queue, to)
			j.RecordAccepted(u, to, thisYear)
		}
	}
	return v
}

func draw(seed string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seed))
	return rand.New(rand.NewPCG(h.Sum64(), 1)) //nolint:gosec // the same each time
}

// prose is so many words of a language with some ten thousand words.
func prose(seed string, n int) string {
	r := draw(seed)
	syllables := strings.Fields("ba be bi bo bu da de di do du ka ke ki ko ku la le li lo lu ma me mi mo mu")
	var b strings.Builder
	for range n {
		for range 2 + r.IntN(2) {
			b.WriteString(syllables[r.IntN(len(syllables))])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// frame is what all pages of a site have around their text.
var frame = "<nav>" + strings.Repeat("<a>home</a> <a>news</a> ", 10) + "</nav><p>" + prose("frame", 120) + "</p>"

func article(seed string, words int, links ...string) *paper {
	return &paper{title: prose(seed, 3), text: frame + "<h1>" + prose(seed, 3) + "</h1><p>" + prose(seed+"x", words), links: links}
}

// real is ten pages that every site of the zoo has beside its traps, in a chain.
func realPages(path string) *paper {
	n := 0
	if _, err := fmt.Sscanf(path, "/real/%d", &n); err != nil || n > 10 {
		return nil
	}
	return article(path, 80, fmt.Sprintf("/real/%d", n+1))
}

var monthNames = strings.Fields("January February March April May June July August September October November December")

var trapCases = []struct {
	name string
	most int // pages beside the real ones
	why  Decision
	site func(path string) *paper
}{
	{"calendar", 80, Calendar, func(path string) *paper {
		y, m := 2026, 11
		_, _ = fmt.Sscanf(path, "/cal/%d/%d", &y, &m)
		at := func(n int) string { n += y*12 + m - 1; return fmt.Sprintf("/cal/%d/%02d", n/12, n%12+1) }
		title := fmt.Sprintf("%s %d", monthNames[m-1], y)
		return &paper{title, frame + "<h1>" + title + "</h1>" + strings.Repeat("<td>1</td>", 30) + "No events.", []string{at(-1), at(1)}}
	}},
	{"calendar with texts of its own", 280, Calendar, func(path string) *paper {
		y, m := 2026, 11
		_, _ = fmt.Sscanf(path, "/cal/%d-%d", &y, &m)
		if y < 2026 {
			return nil
		}
		at := func(n int) string { n += y*12 + m - 1; return fmt.Sprintf("/cal/%d-%02d", n/12, n%12+1) }
		p := article(path, 60, at(-1), at(1), at(12))
		return p
	}},
	{"filters", 700, Follow, func(path string) *paper {
		_, query, _ := strings.Cut(path, "?")
		var links []string
		for name := range strings.FieldsSeq("color size brand price sort view") {
			if !strings.Contains(query, name+"=") {
				for value := range strings.FieldsSeq("a b c") {
					links = append(links, "/shop?"+strings.Trim(query+"&"+name+"="+value, "&"))
				}
			}
		}
		r := draw(query)
		rows := ""
		for range 10 {
			rows += "<tr><td>" + prose(fmt.Sprint("product", r.IntN(60)), 3) + "</td></tr>"
		}
		return &paper{"Shop", frame + rows, links}
	}},
	{"counter", 80, PatternBudget, func(path string) *paper {
		n := 0
		_, _ = fmt.Sscanf(path, "/next?n=%d", &n)
		return &paper{fmt.Sprint("Item ", n), frame + fmt.Sprintf("You are visitor %d, made in 0.%d s", n*7919, n), []string{fmt.Sprintf("/next?n=%d", n+1), fmt.Sprintf("/next?n=%d", n+2)}}
	}},
	{"calendars in two languages that lead to each other", 180, Calendar, func(path string) *paper {
		lang, y, m := "en", 2026, 11
		_, _ = fmt.Sscanf(path, "/%2s/cal/%d/%d", &lang, &y, &m)
		at := func(lang string, n int) string {
			n += y*12 + m - 1
			return fmt.Sprintf("/%s/cal/%d/%02d", lang, n/12, n%12+1)
		}
		if !strings.Contains(path, "cal") {
			lang = "en"
		}
		other := map[string]string{"en": "de", "de": "en"}[lang]
		return &paper{fmt.Sprintf("%s %s %d", lang, monthNames[m-1], y), frame + "No events.", []string{at(lang, -1), at(lang, 1), at(other, 0)}}
	}},
	{"months that lead to their days", 700, Calendar, func(path string) *paper {
		y, m, d := 2026, 11, 0
		_, _ = fmt.Sscanf(path, "/cal/%d/%d/%d", &y, &m, &d)
		at := func(n int) string { n += y*12 + m - 1; return fmt.Sprintf("/cal/%d/%02d", n/12, n%12+1) }
		p := &paper{fmt.Sprintf("%s %d", monthNames[m-1], y), frame + "No events.", []string{at(-1), at(1)}}
		for day := 1; d == 0 && day <= 28; day++ {
			p.links = append(p.links, fmt.Sprintf("%s/%02d", at(0), day))
		}
		return p
	}},
	{"every page asks to log in and come back", 200, Parameters, func(path string) *paper {
		if strings.HasPrefix(path, "/login") {
			return &paper{"Log in", frame + "Name and password", nil}
		}
		n := 0
		_, _ = fmt.Sscanf(path, "/next?n=%d", &n)
		return &paper{"Page", frame + "Nothing to see.", []string{fmt.Sprintf("/next?n=%d", n+1), "/login?next=" + strings.ReplaceAll(path, "?", "%3F")}}
	}},
	{"versions of a page compared with each other", 200, PatternBudget, func(path string) *paper {
		a, b := 1, 1
		_, _ = fmt.Sscanf(path, "/diff?a=%d&b=%d", &a, &b)
		return &paper{fmt.Sprintf("Difference of %d and %d", a, b), frame + fmt.Sprintf("Between version %d and version %d", a, b), []string{
			fmt.Sprintf("/diff?a=%d&b=%d", a+1, b), fmt.Sprintf("/diff?a=%d&b=%d", a, b+1),
		}}
	}},
	{"a list in every order", 300, Follow, func(path string) *paper {
		r, rows := draw(path), []string{}
		for i := range 12 {
			rows = append(rows, "<tr><td>"+prose(fmt.Sprint("row", i), 4)+"</td></tr>")
		}
		r.Shuffle(len(rows), func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
		links := []string{}
		for range 4 {
			links = append(links, fmt.Sprintf("/list?sort=%s&page=%d&seed=%d", strings.Fields("name date size owner")[r.IntN(4)], r.IntN(9), r.IntN(1_000_000)))
		}
		return &paper{"List", frame + strings.Join(rows, ""), links}
	}},
	{"a slash is missing", 6, PathRepetition, func(string) *paper {
		return &paper{"Guide", frame + "guide", []string{"docs/guide/index.html"}}
	}},
	{"depth without an end", 800, PatternBudget, func(path string) *paper {
		dir := path[:strings.LastIndexByte(path, '/')+1]
		return &paper{"Folder", frame + "Index of " + dir, []string{dir + prose(path+"l", 1)[:4] + "/", dir + prose(path+"r", 1)[:4] + "/"}}
	}},
	{"a page for any name", 250, Soft404, func(path string) *paper {
		r := draw(path)
		var links []string
		for range 5 {
			links = append(links, "/"+strings.TrimSpace(prose(fmt.Sprint(r.Uint64()), 2))+".html")
		}
		for i := range links {
			links[i] = strings.ReplaceAll(links[i], " ", "")
		}
		return &paper{"Page not found", frame + "Sorry. You asked for " + path, links}
	}},
}

func TestTraps(t *testing.T) {
	for _, tc := range trapCases {
		t.Run(tc.name, func(t *testing.T) {
			v := walk(t, Config{}, 20_000, func(path string) *paper {
				if strings.HasPrefix(path, "/real/") {
					return realPages(path)
				}
				p := tc.site(path)
				if p != nil {
					p.links = append(p.links, "/real/1")
				}
				return p
			}, "/")
			t.Logf("%d fetched, %d read, refused %v", len(v.fetched), v.read, v.refused)
			require.LessOrEqual(t, len(v.fetched)-v.in("/real/"), tc.most)
			require.Equal(t, 11, v.in("/real/"), "the others are there")
			if tc.why != Follow {
				require.Positive(t, v.refused[tc.why])
			}
		})
	}
}

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

func texts(words int) func(i int) *paper {
	return func(i int) *paper { return article(fmt.Sprint("text", i), words) }
}

var noTrapCases = []struct {
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
}

// What is no trap is visited whole, whatever it looks like.
func TestNoTraps(t *testing.T) {
	for _, tc := range noTrapCases {
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
