package watch

import (
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/clocktest"
)

var docsDirs = flag.String("watch.docs", "", "measure on 60 HTML pages below each of these `directories`, apart by commas, for eight rounds with each template")

// planted is a site of real pages with a template that changes, and with changes of some pages.
type planted struct {
	pages    []string // HTML
	edits    [][]func(string) string
	template string
	round    int
	rnd      *rand.Rand
}

// templates are texts that change on all pages: their place, and the text in a round on a page.
var templates = map[string]struct {
	top  bool
	text func(round, page int) string
}{
	"none": {false, func(int, int) string { return "" }},
	"date": {false, func(round, _ int) string {
		return "<div><p>Today is " + begin.AddDate(0, 0, round).Format("Monday, 2 January 2006") + "</p></div>"
	}},
	"latest posts": {true, func(round, _ int) string {
		text := "<div><h4>Latest posts</h4><ul>"
		for i := range 5 {
			text += fmt.Sprintf("<li>%s of number %d</li>", []string{"Release notes", "A story", "Minutes", "A talk", "An interview"}[(round+5-i)%5], 100+round-i)
		}
		return text + "</ul></div>"
	}},
	"counter": {false, func(round, page int) string {
		return fmt.Sprintf("<p>You are visitor number %d of this page</p>", 4000+page*977+round*(3+page%7))
	}},
	"build": {false, func(round, page int) string {
		return fmt.Sprintf("<footer><p>Build %x</p><p>made in 0.%d%d seconds</p></footer>", 0x3f2a9c1+round*77777, 1+(page*7+round*5)%9, (page+round*3)%10)
	}},
	"quote": {false, func(round, page int) string {
		n := (page*31 + round*17) % 40
		return fmt.Sprintf("<blockquote>%s %s %s.</blockquote>", []string{"Simple", "Patient", "Honest", "Quiet", "Bold"}[n%5], []string{"work", "people", "words", "tools"}[n/5%4], []string{"wins in the end", "need no praise"}[n/20])
	}},
	"users online": {true, func(round, page int) string {
		return fmt.Sprintf("<ul><li>%d users online</li><li>%d today</li></ul>", 30+(page*13+round*7)%50, 900+round*211+page)
	}},
	"banner": {true, func(round, _ int) string { return fmt.Sprintf("<p>Version 15.%d is out: read the notes.</p>", round/2) }},

	// Lines that rotate: at each visit of some pages another one of a few.
	"an ad":         {true, rotating(3, 4, "<p>Our partners</p><p>%s</p><p>Thank you</p>")},
	"a testimonial": {false, rotating(30, 3, "<blockquote>%s</blockquote><p>said a reader</p>")},
	"related": {false, func(round, page int) string {
		text := rotating(5, 20, "<h4>Related pages</h4><ul><li>%s</li>")(round, page/2)
		return text + strings.TrimPrefix(rotating(5, 20, "<h4>Related pages</h4><li>%s</li></ul>")(round+50, page/2), "<h4>Related pages</h4>")
	}},
	"a tip":       {false, rotating(2, 12, "<p>%s</p>")},
	"a sponsor":   {true, rotating(20, 5, "<p>Kindly supported by</p><p>%s</p><p>and others</p>")},
	"a tag line":  {true, rotating(1, 15, "<p>%s</p>")},
	"two answers": {false, rotating(12, 2, "<p>%s</p><p>Imprint and contact</p>")},
}

// rotating is a text of one page of so many, with one of n sentences that are chosen anew at each visit.
func rotating(every, n int, format string) func(round, page int) string {
	return func(round, page int) string {
		if page%every != 0 {
			return ""
		}
		one := rand.New(rand.NewPCG(uint64(round), uint64(page))).IntN(n)
		return fmt.Sprintf(format, fmt.Sprintf("%s %s the %s", []string{"Nobody", "Anybody", "Somebody", "Everybody"}[one%4], []string{"sees", "hears", "likes"}[one/4%3], []string{"river", "mountain"}[one/12%2]))
	}
}

var (
	bodyTag  = regexp.MustCompile(`(?i)<body[^>]*>`)
	longText = regexp.MustCompile(`<(?:p|li|dd|td)>[^<>]{40,}<`)
	titleTag = regexp.MustCompile(`(?i)<title>[^<]*`)
)

// changeOf returns a change of one page: of a word, of a paragraph, or of its title. It returns nil if the page has no
// text.
func changeOf(html string, n int, rnd *rand.Rand) func(string) string {
	if at := bodyTag.FindStringIndex(html); at == nil {
		return nil
	}
	found := longText.FindAllStringIndex(html[:min(len(html), 40_000)], -1)
	if len(found) == 0 {
		return nil
	}
	if n%6 == 5 { // from one state to the other and back
		return func(html string) string {
			return strings.NewReplacer(inStock, soldOut, soldOut, inStock).Replace(html)
		}
	}
	at := found[rnd.IntN(len(found))]
	was := html[at[0]:at[1]]
	return func(html string) string {
		switch n % 5 {
		case 0:
			return strings.Replace(html, was, strings.Replace(was, ">", fmt.Sprintf(">In edition %d: ", n), 1), 1)
		case 1:
			return strings.Replace(html, was, fmt.Sprintf("<p>This paragraph is new in edition %d, and says what was not said here before.</p>", n)+was, 1)
		case 2:
			words := strings.Fields(was)
			words[len(words)/2] = fmt.Sprintf("%d", 1000+n)
			return strings.Replace(html, was, strings.Join(words, " "), 1)
		case 3:
			return strings.Replace(html, was, was[:strings.IndexByte(was, '>')+1]+"<", 1)
		default:
			return titleTag.ReplaceAllString(html, "${0} (edition "+fmt.Sprint(n)+")")
		}
	}
}

// A line of each page is one of two.
const inStock, soldOut = "<p>It is in stock</p>", "<p>It is sold out</p>"

// html is a page without its template, which comes where it has a NUL: before its first long line, or behind its last one.
func (p *planted) html(n int) string {
	html := p.pages[n]
	if at := longText.FindAllStringIndex(html, -1); at != nil && templates[p.template].top {
		html = html[:at[0][0]] + "<p>Availability</p>" + inStock + "\x00" + html[at[0][0]:]
	} else if at != nil {
		last := at[len(at)-1][1] - 1
		last += strings.IndexByte(html[last:], '>') + 1
		html = html[:last] + "<p>Availability</p>" + inStock + "\x00" + html[last:]
	}
	for _, edit := range p.edits[n] {
		html = edit(html)
	}
	return html
}

func (p *planted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Path, "/p%d", &n); err != nil || n >= len(p.pages) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprint(w, strings.Replace(p.html(n), "\x00", templates[p.template].text(p.round, n), 1))
}

// score counts changes of pages: reported and real, reported, real, and those of the template.
type score struct{ right, told, planted, template int }

func (s score) String() string {
	return fmt.Sprintf("precision %.3f (%d of %d) recall %.3f (%d of %d), %d told of the template", float64(s.right)/float64(max(1, s.told)), s.right, s.told,
		float64(s.right)/float64(max(1, s.planted)), s.right, s.planted, s.template)
}

// measure watches a planted site for some rounds.
func measure(t *testing.T, pages []string, template string) (s score) {
	p := &planted{pages: pages, edits: make([][]func(string) string, len(pages)), template: template, rnd: rand.New(rand.NewPCG(1, uint64(len(template))))}
	server := httptest.NewServer(p)
	defer server.Close()
	var seeds []string
	for i := range pages {
		seeds = append(seeds, fmt.Sprintf("%s/p%d", server.URL, i))
	}
	w := watching(t, true, 0, seeds...)
	w.o.Settings.Sitemaps.Enabled, w.o.Settings.MaxPages = false, 1 // only the seeds
	w.round(0)
	n, pending := 0, map[string]bool{} // changes that were made and not yet reported
	for range 8 {
		p.round++
		for i := range pages {
			if p.rnd.IntN(9) != 0 {
				continue
			}
			n++
			if e := changeOf(pages[i], n, p.rnd); e != nil && !pending[seeds[i]] {
				if before := p.html(i); e(before) != before {
					p.edits[i] = append(p.edits[i], e)
					pending[seeds[i]] = true
					s.planted++
				}
			}
		}
		already := len(w.told())
		w.round(24 * time.Hour)
		for _, c := range w.told()[already:] {
			switch {
			case c.Change == "template":
				s.template++
			case pending[c.URL]:
				delete(pending, c.URL)
				s.right++
				s.told++
			default:
				s.told++
			}
		}
	}
	return s
}

// pagesBelow returns n HTML files, chosen by the hashes of their names.
func pagesBelow(t *testing.T, dir string, n int) (pages []string) {
	var paths []string
	hash := func(s string) uint64 { h := fnv.New64a(); _, _ = h.Write([]byte(s)); return h.Sum64() }
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if info, e := os.Stat(path); err == nil && e == nil && strings.HasSuffix(path, ".html") && info.Mode().IsRegular() && info.Size() < 1<<20 && info.Size() > 1500 {
			paths = append(paths, path)
		}
		return err
	}))
	slices.SortFunc(paths, func(a, b string) int { return int(int64(hash(a)>>2) - int64(hash(b)>>2)) })
	for _, path := range paths[:min(n, len(paths))] {
		data := must(os.ReadFile(path))
		pages = append(pages, string(data))
	}
	return pages
}

// A line that changes on most pages is reported once, as a change of the host, and later not at all. Other changes on
// the same page are reported, and so are changes at that place on few pages, and everything that selectors select.
func TestTemplate(t *testing.T) {
	site := func(version string, changed map[int]string) map[string]answer {
		pages := map[string]answer{}
		links := ""
		for i := range 12 {
			links += fmt.Sprintf("<p><a href=/%d>Item number %d</a></p>", i, i)
			pages[fmt.Sprintf("/%d", i)] = answer{text: fmt.Sprintf("<title>Item %c</title><main><h1>Item %[1]c</h1><p>This is item %[1]c%s.</p><p>Price:</p><p>%s</p><p>Order now</p><p>%s built this site</p></main>",
				'a'+i, changed[i], strings.Repeat("1", 1+len(changed[100+i])), version)}
		}
		pages["/"] = answer{text: "<title>Home</title><main>" + links + "</main>"}
		return pages
	}
	s := newSite(t, site("Ann", nil))
	dir, clk := t.TempDir(), clocktest.NewFake(begin)
	w := watched(t, dir, clk, true, 0, s.URL)
	w.round(0)
	step := func(version string, changed map[int]string) []string {
		s.mu.Lock()
		s.pages = site(version, changed)
		s.mu.Unlock()
		_, told := w.round(time.Hour)
		return told
	}
	of := func(told []string) string { return strings.ReplaceAll(strings.Join(told, "; "), s.URL, "") }
	changed := map[int]string{3: ", the best"}
	require.Equal(t, "changed /3 -This is item d. +This is item d, the best.; template / -Ann built this site +Bob built this site", of(step("Bob", changed)))
	last := w.told()[len(w.told())-1]
	require.Equal(t, 12, last.Pages)
	require.Len(t, last.Examples, 12)
	require.Equal(t, 11, w.counts.Unchanged-1)
	w.end() // the next process must know the same
	w = watched(t, dir, clk, true, 0)
	changed[103] = "cheaper"
	require.Equal(t, "changed /3 -1 +11111111", of(step("Eve", changed)), "the template is known, and few prices have changed")
	w.reader.selectors = "p"
	require.GreaterOrEqual(t, len(step("Dan", changed)), 12)
	w.end()
}

// What has changed on one page alone is reported, also right next to a line of the template.
func TestBesideTheTemplate(t *testing.T) {
	s := newSite(t, map[string]answer{})
	set := func(version, ofThird string) {
		s.setAll(12, func(i int) answer {
			own := "A word of " + names[i]
			if i == 3 {
				own = ofThird
			}
			return text("Text of " + names[i] + "</p><p>" + own + "</p><p>" + version + " built this site</p><p>Imprint and contact")
		})
	}
	set("Ann", "A word of all")
	w := watching(t, true, 0, s.URL)
	w.round(0)
	set("Bob", "Another word")
	_, told := w.round(time.Hour)
	require.Equal(t, []string{"changed /3 -A word of all +Another word", "template / -Ann built this site +Bob built this site"}, told)
}

// Documents that all change have no template in common if each changes in its own way: at its beginning, at its end, or as
// a whole.
func TestDocumentsHaveNoTemplate(t *testing.T) {
	const documents = 7
	word := func(page, round int) string {
		return fmt.Sprintf("%s of %s", names[page], names[(page*3+round*5)%len(names)])
	}
	log := func(page, rounds int) (lines []string) {
		for round := range rounds + 1 {
			lines = append(lines, "The entry "+word(page, round))
		}
		return lines
	}
	for name, of := range map[string]func(page, round int) answer{
		"JSON on one line": func(page, round int) answer {
			return answer{text: fmt.Sprintf(`{"the name": %q, "its number": %d}`, word(page, round), round), header: map[string]string{"Content-Type": "application/json"}}
		},
		"numbers on one line": func(_, round int) answer {
			return answer{text: fmt.Sprintf("There are %d of them", round), header: map[string]string{"Content-Type": "text/plain"}}
		},
		"a log": func(page, round int) answer {
			return answer{text: strings.Join(log(page, round+1), "\n"), header: map[string]string{"Content-Type": "text/plain"}}
		},
		"a log, the latest first": func(page, round int) answer {
			lines := log(page, round+1)
			slices.Reverse(lines)
			return answer{text: strings.Join(lines, "\n"), header: map[string]string{"Content-Type": "text/plain"}}
		},
		"a digest": func(page, round int) answer {
			return answer{text: "%PDF-1.7 " + word(page, round), header: map[string]string{"Content-Type": "application/pdf"}}
		},
		"a redirect": func(_, round int) answer {
			return answer{status: http.StatusFound, header: map[string]string{"Location": fmt.Sprintf("http://elsewhere.invalid/edition/%d", round)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, map[string]answer{})
			change := func(round int) { s.setAll(documents, func(page int) answer { return of(page, round) }) }
			change(0)
			w := watching(t, true, 0, s.URL)
			w.round(0)
			for round := range 3 {
				change(round + 1)
				counts, told := w.round(24 * time.Hour)
				require.Len(t, told, documents, "%q", told)
				require.Equal(t, documents, counts.Changed)
			}
		})
	}
}

// names are words without numbers.
var names = []string{"Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Jim", "Kay", "Leo", "Mia", "Ned", "Oda", "Pam", "Quin"}

// A page that changes at the same place at every visit has no template.
func TestOnePageHasNoTemplate(t *testing.T) {
	s := newSite(t, map[string]answer{"/": text("Home 0")})
	w := watching(t, true, 0, s.URL)
	w.round(0)
	for i := range 3 * manyPages {
		s.set("/", text(fmt.Sprintf("The story of today has number %d", i+1)))
		_, told := w.round(time.Hour)
		require.Len(t, told, 1)
	}
}

// A line that comes and goes at every visit is told at first, then once as the template, and later not at all. A line that
// stays for a while before it changes back is told each time, and so is what has never been there.
func TestLinesRotate(t *testing.T) {
	s := newSite(t, map[string]answer{})
	page := func(lines ...string) {
		s.set("/", answer{text: "<title>Home</title><main><p>Home of all</p><p>" + strings.Join(lines, "</p><p>") + "</p><p>The end of it</p></main>"})
	}
	page("Advertisement zero", "In stock")
	dir, clk := t.TempDir(), clocktest.NewFake(begin)
	w := watched(t, dir, clk, true, 0, s.URL)
	w.round(0)
	ads := []string{"Advertisement zero", "Advertisement one"}
	var kinds []string
	for round := range 8 {
		page(ads[(round+1)%2], "In stock")
		w.round(24 * time.Hour)
		if round == 4 { // the next process must know the same
			w.end()
			w = watched(t, dir, clk, true, 0)
		}
	}
	for _, c := range w.told() {
		kinds = append(kinds, c.Change)
	}
	require.Equal(t, []string{"changed", "changed", "changed", "changed", "template"}, kinds)

	for round := range 20 { // the stock changes every third day
		stock := []string{"In stock", "Sold out"}[(round+1)/3%2]
		page(ads[(round+1)%2], stock)
		_, told := w.round(24 * time.Hour)
		require.Equal(t, (round+1)%3 == 0, len(told) == 1, "%d: %q", round, told)
		require.NotContains(t, strings.Join(told, " "), "Advertisement")
	}
	page(ads[1], "Withdrawn")
	_, told := w.round(24 * time.Hour)
	require.Len(t, told, 1)
	w.end()
}

// At the ends of texts, lines that rotate among many pages are the template after some visits, and others are not.
func TestLinesRotateAtTheEnd(t *testing.T) {
	const pages = 12
	s := newSite(t, map[string]answer{})
	set := func(last func(page int) string) {
		s.setAll(pages, func(i int) answer { return text("Text of " + names[i] + "</p><p>" + last(i)) })
	}
	of := func(round int) func(int) string {
		return func(page int) string { return "The saying of " + names[(page+round*5)%pages] }
	}
	set(of(0))
	w := watching(t, true, 0, s.URL)
	w.round(0)
	for round, want := range []int{pages, pages, 1, 0, 0} {
		set(of(round + 1))
		_, told := w.round(24 * time.Hour)
		require.Len(t, told, want, round)
		require.Equal(t, want == 1, strings.Contains(strings.Join(told, " "), "template"), round)
	}
	set(func(page int) string { return "A word for " + names[page] + " alone" })
	_, told := w.round(24 * time.Hour)
	require.Len(t, slices.DeleteFunc(told, func(one string) bool { return strings.HasPrefix(one, "template") }), pages)
}

// TestTemplateOfDocs measures with real pages what is reported when a template changes.
func TestTemplateOfDocs(t *testing.T) {
	if *docsDirs == "" {
		t.Skip("give -watch.docs")
	}
	names := slices.Sorted(maps.Keys(templates))
	sums := map[string]*score{}
	for dir := range strings.SplitSeq(*docsDirs, ",") {
		pages := pagesBelow(t, dir, 60)
		for _, name := range names {
			s := measure(t, pages, name)
			t.Logf("%-24s %-14s %v", filepath.Base(dir), name, s)
			for _, key := range []string{name, "all"} {
				if sums[key] == nil {
					sums[key] = new(score)
				}
				sum := sums[key]
				sum.right, sum.told, sum.planted, sum.template = sum.right+s.right, sum.told+s.told, sum.planted+s.planted, sum.template+s.template
			}
		}
	}
	for _, name := range append(names, "all") {
		t.Logf("%-24s %-14s %v", "SUM", name, sums[name])
	}
}

// A change of a template is short, however long the URLs of its pages are, so that it is found at the end of a file.
func TestTemplateIsShort(t *testing.T) {
	const pages = 20
	s := newSite(t, map[string]answer{})
	var links []string
	for i := range pages {
		links = append(links, fmt.Sprintf("/%d%s", i, strings.Repeat("x", 4000)))
	}
	set := func(version string) {
		for i, link := range links {
			s.set(link, answer{text: fmt.Sprintf("<title>Item %d</title><main><p>Text of %[1]d</p><p>Order now</p><p>%s built this site</p></main>", i, version)})
		}
	}
	s.set("/", text("Home", links...))
	set("Ann")
	w := watching(t, true, 0, s.URL)
	w.round(0)
	set("Bob")
	_, told := w.round(time.Hour)
	require.Len(t, told, 1)
	change := w.told()[0]
	require.Equal(t, pages, change.Pages)
	require.NotEmpty(t, change.Examples)
	require.Less(t, len(strings.Join(change.Examples, "")), 33<<10)
}
