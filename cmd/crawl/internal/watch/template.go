package watch

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cespare/xxhash/v2"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// A changed line belongs to the template, such as a counter, a list of the latest posts or the number of a build, if
// most pages that have its place, or a line that differs from it in numbers alone, have changed there.
const (
	manyPages   = 5   // pages that must have changed at the place
	mostOfPages = 0.6 // share of the visited pages with the place that must have changed there
	maxPlaces   = 128 // places kept per host
	maxWeight   = 16  // pages for which the past of a place counts at most
	maxKeys     = 1 << 16
	deepest     = 32 // lines from the unchanged line
	maxExamples = 100
	maxListed   = 32 << 10 // bytes of the examples
	leastWords  = 2        // words in a line that has a shape
)

// place is what a changed line has in common with changed lines of other pages: another line, and how many lines behind
// it the changed line is. From is negative if the changed line is before the other, and zero if it is that line itself.
// The other line is one that has not changed, or the shape of a changed line here or next to it.
type place struct {
	Context uint64 `json:"context"` // hash of the other line
	From    int8   `json:"from"`
}

var withDigit = regexp.MustCompile(`[\pL]*\pN[\pL\pN]*`)

// shape returns a hash of a line without its numbers. It returns false if the line has too few words to tell it from
// others.
func shape(line string) (uint64, bool) {
	line = withDigit.ReplaceAllString(line, "#")
	words := 0
	for word := range strings.FieldsSeq(line) {
		if strings.IndexFunc(word, unicode.IsLetter) >= 0 {
			words++
		}
	}
	return xxhash.Sum64String("\n" + line), words >= leastWords
}

// seenPlace is a place and what visits have found there.
type seenPlace struct {
	place
	Changed float32 `json:"changed"` // visits of pages that have changed there
	Same    float32 `json:"same"`
	Pages   []int64 `json:"pages"`          // the first manyPages of the pages that have changed there
	Told    bool    `json:"told,omitempty"` // it was reported as part of the template
}

// template reports whether the place belongs to the template.
func (p *seenPlace) template() bool {
	return len(p.Pages) >= manyPages && p.Changed >= mostOfPages*(p.Changed+p.Same)
}

// edit is a changed line: a removed one or a new one.
type edit struct {
	removed bool
	text    string // without noise
	places  []place
}

// comparison is a comparison of two texts of a page: their lines, the keys of these, and the edits.
type comparison struct {
	old, now, was, is []string
	edits             []edit
}

// compare returns the lines by which a text differs from an earlier one. It finds no edits if the difference has no
// meaning: another order of the lines, or what follows from the time of the visit (see noise). The edits have no places
// if one of the texts has a single line, such as a digest or the target of a redirect: such a text has no template.
func compare(old, now []string, oldAt, nowAt time.Time) *comparison {
	c := &comparison{old: old, now: now, was: keys(old, now, oldAt), is: keys(now, old, nowAt)}
	inOld, inNow := setOf(c.was), setOf(c.is)
	_, text, _ := strings.Cut(string(diff.Diff("before", joined(c.was), "now", joined(c.is))), "+++ now\n")
	before, begin := "", 0 // the last unchanged line, and the first edit after it
	close := func(after string) {
		if len(old) > 1 && len(now) > 1 {
			c.locate(c.edits[begin:], before, after)
		}
		before, begin = after, len(c.edits)
	}
	for line := range strings.Lines(text) {
		switch sign, line := line[0], strings.TrimSuffix(line[1:], "\n"); sign {
		case '@':
			close("")
		case ' ':
			close(line)
		default:
			if sign == '-' && !inNow[line] || sign == '+' && !inOld[line] {
				c.edits = append(c.edits, edit{removed: sign == '-', text: line})
			}
		}
	}
	close("")
	return c
}

// locate adds the places of edits that are between two unchanged lines. An empty line stands for the beginning or the
// end of the text, which gives no place: every page has it, with a line of its own there.
func (c *comparison) locate(edits []edit, before, after string) {
	of := map[bool]int{}
	for i := range edits {
		of[edits[i].removed]++
	}
	n := map[bool]int{}
	for i := range edits {
		e := &edits[i]
		for _, from := range []int{-1, 0, 1} {
			if j := i - from; j >= 0 && j < len(edits) && edits[j].removed == e.removed {
				if hash, ok := shape(edits[j].text); ok {
					e.places = append(e.places, place{hash, int8(from)})
				}
			}
		}
		n[e.removed]++
		e.add(before, n[e.removed])
		e.add(after, n[e.removed]-1-of[e.removed])
	}
}

func (e *edit) add(context string, from int) {
	if context != "" && from <= deepest && from >= -deepest && !strings.Contains(context, "\x00") { // not if it has noise
		e.places = append(e.places, place{xxhash.Sum64String(context), int8(from)})
	}
}

// diff returns a diff of the edits for which told is true, and how many lines it adds and removes.
func (c *comparison) diff(told func(*edit) bool) (text string, added, removed int) {
	shown := make(map[string]bool, len(c.edits)) // by the texts of edits: whether they are shown
	for i := range c.edits {
		e := &c.edits[i]
		known := shown[e.text]
		is := told(e) || known
		shown[e.text] = is
		switch {
		case !is || known:
		case e.removed:
			removed++
		default:
			added++
		}
	}
	if added+removed == 0 {
		return "", 0, 0
	}
	var old, now []string
	first := make(map[string]string, len(c.old))
	for i, key := range c.was {
		first[key] = c.old[i]
		if its, edited := shown[key]; its || !edited {
			old = append(old, c.old[i])
		}
	}
	for i, key := range c.is {
		if its, edited := shown[key]; its || !edited {
			now = append(now, cmp.Or(first[key], c.now[i])) // a line that differs in noise alone stays as it was
		}
	}
	text = string(diff.Diff("before", joined(old), "now", joined(now)))
	_, text, _ = strings.Cut(text, "+++ now\n")
	if len(text) > maxDiff {
		text = text[:strings.LastIndexByte(text[:maxDiff], '\n')+1] + "...\n"
	}
	return strings.ToValidUTF8(text, "\uFFFD"), added, removed
}

func joined(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

func setOf(lines []string) map[string]bool {
	set := make(map[string]bool, len(lines))
	for _, line := range lines {
		set[line] = true
	}
	return set
}

// tell reports the changes that are held, without lines that belong to the template of their host. A place where most
// pages have changed is reported once, as a change of the host with Change "template".
// If ctx ends, what is not
// told yet stays held. The caller holds the lock, which is released between hosts.
func (w *Watch) tell(ctx context.Context, since time.Time) error {
	list, err := w.store.allHeld()
	if err != nil {
		return err
	}
	of := make(map[*host][]*held)
	var hosts []*host // in the order of their changes
	for _, one := range list {
		if one.e = w.urls[one.URL]; one.e == nil {
			continue
		}
		if of[one.e.host] == nil {
			hosts = append(hosts, one.e.host)
		}
		of[one.e.host] = append(of[one.e.host], one)
	}
	for _, h := range w.hosts {
		if len(h.Places) > 0 && of[h] == nil {
			hosts = append(hosts, h)
		}
	}
	for _, h := range hosts {
		w.mu.Unlock() // outputs may go on
		ended := ctx.Err() != nil
		w.mu.Lock()
		if ended {
			return nil
		}
		counts := w.counts
		err := w.store.db.Transact(func() error { return w.tellOf(ctx, h, of[h], since) })
		if err != nil {
			w.counts = counts
		}
		if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tally is how many pages have changed at a place, and the first manyPages of them.
type tally struct {
	n     int
	pages []int64
}

func (t *tally) add(page int64) {
	if t.n++; len(t.pages) < manyPages {
		t.pages = append(t.pages, page)
	}
}

// tellOf does for one host what tell does for all.
func (w *Watch) tellOf(ctx context.Context, h *host, list []*held, since time.Time) error {
	changed := make(map[place]*tally)
	for _, one := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if since.IsZero() || one.Time.Before(since) {
			since = one.Time
		}
		c, err := w.store.compared(one)
		if err != nil {
			return err
		}
		here := make(map[place]bool)
		for i := range c.edits {
			for _, p := range c.edits[i].places {
				if changed[p] == nil && len(changed) < maxKeys {
					changed[p] = new(tally)
				}
				if t := changed[p]; t != nil && !here[p] {
					here[p] = true
					t.add(one.e.id)
				}
			}
		}
	}
	var places map[place]*seenPlace // nil with selectors: every line that they select is reported
	if w.reader.selectors == "" {
		var err error
		if places, err = w.store.places(h, changed, since); err != nil {
			return err
		}
	}
	news := Change{Change: "template"}
	for _, one := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.tellPage(one, places, &news); err != nil {
			return err
		}
	}
	if news.Pages > 0 {
		if err := w.report(&news); err != nil {
			return err
		}
	}
	h.remember(places)
	u, err := canonical.Parse(h.entries[0].url)
	if err == nil {
		err = w.store.saveHost(u.Host(), h)
	}
	return err
}

// compared compares the text of a held page before its change with its text now. It has no edits if the page is gone by
// now.
func (s *store) compared(one *held) (*comparison, error) {
	old, err := s.text(s.getHeld, one.e.id)
	if err != nil {
		return nil, err
	}
	now, err := s.lines(one.e.id)
	if err != nil || now == nil {
		return &comparison{}, err
	}
	return compare(old, now, one.Previous, one.Time), nil
}

// places returns what is known of the places of a host, with what the round since that time has found.
func (s *store) places(h *host, changed map[place]*tally, since time.Time) (map[place]*seenPlace, error) {
	places := make(map[place]*seenPlace, len(changed)+len(h.Places))
	pages := make(map[uint64]int, len(changed)) // how many pages have the line, by its hash
	for _, p := range h.Places {
		places[p.place] = &p
		pages[p.Context] = 0
	}
	for p := range changed {
		pages[p.Context] = 0
		if places[p] == nil {
			places[p] = &seenPlace{place: p}
		}
	}
	if len(places) == 0 {
		return places, nil
	}
	for _, e := range h.entries { // pages visited more than once, with and without another text
		if e.kind == page && e.state == live && e.visits > 1 && e.visited >= since.Unix() {
			if err := s.countLines(e, pages); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range places {
		t := changed[p.place]
		if t == nil {
			t = new(tally)
		}
		p.Changed += float32(t.n)
		p.Same += float32(max(0, pages[p.Context]-t.n))
		for _, id := range t.pages {
			if len(p.Pages) < manyPages && !slices.Contains(p.Pages, id) {
				p.Pages = append(p.Pages, id)
			}
		}
	}
	return places, nil
}

// countLines adds one to the counts in pages of the lines that a page has.
func (s *store) countLines(e *entry, pages map[uint64]int) error {
	lines, err := s.lines(e.id)
	seen := make(map[uint64]bool, len(lines))
	count := func(hash uint64) {
		if _, asked := pages[hash]; asked && !seen[hash] {
			seen[hash] = true
			pages[hash]++
		}
	}
	for _, line := range lines {
		count(xxhash.Sum64String(line))
		if hash, ok := shape(line); ok {
			count(hash)
		}
	}
	return err
}

// tellPage reports the change of one page, or adds the page to news, the change of the template.
func (w *Watch) tellPage(one *held, places map[place]*seenPlace, news *Change) error {
	c, err := w.store.compared(one)
	if err != nil {
		return err
	}
	template, unknown := false, false
	isTemplate := func(e *edit) bool {
		its, known := false, false
		for _, p := range e.places {
			if seen := places[p]; seen != nil && seen.template() {
				its, known = true, known || seen.Told
			}
		}
		template, unknown = template || its, unknown || its && !known
		return its
	}
	text, added, removed := c.diff(func(e *edit) bool { return !isTemplate(e) })
	if unknown {
		if news.Pages++; news.Pages == 1 {
			news.Time, news.Status, news.URL = one.Time, one.Status, one.URL
			if u, err := canonical.Parse(one.URL); err == nil {
				news.URL = u.Origin() + "/"
			}
			news.Diff, news.Added, news.Removed = c.diff(isTemplate)
		}
		if len(news.Examples) < maxExamples && len(strings.Join(news.Examples, ""))+len(one.URL) <= maxListed {
			news.Examples = append(news.Examples, one.URL)
		}
	}
	told := added+removed > 0
	switch {
	case told:
		w.counts.Changed++
		one.Diff, one.Added, one.Removed = text, added, removed
		err = w.report(&one.Change)
	default:
		if w.counts.Unchanged++; template {
			w.counts.Template++
		}
	}
	if err == nil && !one.Previous.IsZero() {
		one.e.learn(int64(one.Time.Sub(one.Previous)/time.Second), told, one.Ago, one.Listed, one.Word)
		err = w.store.put(one.e)
	}
	if err == nil {
		err = w.store.dropHeld(one.e.id)
	}
	return err
}

// remember keeps the most important places of a host for later rounds.
func (h *host) remember(places map[place]*seenPlace) {
	list := make([]seenPlace, 0, len(places))
	for _, p := range places {
		p.Told = p.Told && p.Changed > p.Same || p.template()
		if weight := p.Changed + p.Same; weight > maxWeight {
			p.Changed, p.Same = p.Changed/weight*maxWeight, p.Same/weight*maxWeight
		}
		if p.Changed >= 1 {
			list = append(list, *p)
		}
	}
	slices.SortFunc(list, func(a, b seenPlace) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(a.Same, b.Same), cmp.Compare(a.Context, b.Context), cmp.Compare(a.From, b.From))
	})
	h.Places = list[:min(len(list), maxPlaces)]
}
