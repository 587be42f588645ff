package trap

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
)

const noBound = math.MaxInt

// pattern is what is known of the URLs of a pattern.
type pattern struct {
	visited int    // pages
	trialAt int    // with that many pages the next trial begins, if the pattern grows
	since   int    // pages when it was last begun to count what follows
	grown   int    // URLs that were found since then
	trial   *trial // nil: none has begun, or its room was needed
	trying  bool   // the trial is on
	proven  bool   // one has ended well
	why     Reason // it was left; None: it is open
	refused int    // URLs, since it was left
	probeAt int    // with so many refused one may pass; zero: none, as nothing is left to judge by
	passed  uint64 // the last that did, by its hash

	titles    [4]uint64 // a filter of the titles before the first trial
	newTitles int       // that it did not know
}

// trial is what pages of a pattern have said.
type trial struct {
	filter  [filterBits / 64]uint64
	set     int // bits of it
	read    int // pages, of this trial
	titles  int // titles that were new
	score   int // stale pages, less freshWeight for each fresh one
	early   int // what pages of the trial brought after the first: new runs of words, and images
	late    int // and those after the teaching
	stale   int // pages since the teaching
	nothing int // of them, those that say there is nothing
	unheard int // pages with too few words to be heard
}

const (
	// maxPatterns bounds the patterns, at about 100 bytes each.
	maxPatterns = 1 << 17
	// maxTrials bounds the trials, at 8 KB each.
	maxTrials = 1 << 10
	// filterBits is what a trial remembers what was said in. A quarter of it is some 19,000
	// runs of words, which is proof enough that pages have something to say.
	filterBits = 1 << 16
	// fullFilter is when it may take too much for known that is new.
	fullFilter = filterBits / 4

	teaching    = 16  // pages; more than there are months
	steady      = 8   // pages after the teaching that are compared with the first ones
	longTrial   = 160 // pages after which a trial ends well
	freshWeight = 12
	titleEvery  = 8 // of pages with new titles one in so many is read
	patience    = 8 // so many times later the first trial begins while titles are new

	staleWords   = 3  // new runs of three words: one new word makes three. None, if the title is new
	nothingWords = 9  // of a page that says that there is nothing, and what was asked for
	fewWords     = 6  // a page with fewer different ones says nothing that could be judged: it is made by its scripts
	maxUnheard   = 32 // pages below that, after which a trial ends, as they cost as much as others
	staleNumbers = 8  // a date and time, a counter, how long it took

	firstProbe = 64
)

// begins are the pages of a pattern before its trial, and needs are how many times
// Config.MaxStale leave it.
var (
	begins = [levels]int{16, 32, 128, 512}
	needs  = [levels]int{1, 2, 4, 8}
)

// pause is how many pages pass until another trial. A trap that begins late in a large
// pattern costs as many.
func (p *pattern) pause() int { return min(256+p.visited/4, 1024) }

// count begins to count anew whether the pattern grows.
func (p *pattern) count() { p.since, p.grown = p.visited, 0 }

// grows reports whether for two pages of the pattern that were visited at least one URL of
// it was found. Else it has an end, and is no trap whatever its pages say.
func (p *pattern) grows() bool { return 2*p.grown >= p.visited-p.since }

// visitLocked counts a page of a pattern, and begins its trial when that is due.
func (j *Judge) visitLocked(key uint64, l level) *pattern {
	p := j.patterns[key]
	if p == nil {
		j.makeRoom()
		p = &pattern{trialAt: begins[l]}
		j.patterns[key] = p
	}
	p.visited++
	if p.trying || p.why != None || p.visited < p.trialAt || p.various(l) {
		return p
	}
	if p.grows() {
		j.begin(p)
	} else {
		p.trialAt = p.visited + begins[l]
	}
	p.count()
	return p
}

// various reports whether the pages of a pattern have so many titles that its first trial
// can wait.
func (p *pattern) various(l level) bool {
	return p.trial == nil && p.visited < patience*begins[l] && 4*p.newTitles >= 3*p.visited
}

// wants reports whether the text of a page with that title is to be read, and whether the
// title is new.
func (p *pattern) wants(title uint64) (read, isNew bool) {
	if p.trial == nil || !p.trying && p.why == None {
		if i, bit := title>>6%4, uint64(1)<<(title%64); title != 0 && p.titles[i]&bit == 0 {
			p.titles[i] |= bit
			p.newTitles++
		}
		return false, false
	}
	if title == 0 || !p.trial.add(title) {
		return true, false
	}
	p.trial.titles++
	return p.why != None || p.trial.titles%titleEvery == 1, true
}

// makeRoom forgets patterns when there are too many.
func (j *Judge) makeRoom() {
	if len(j.patterns) < maxPatterns {
		return
	}
	for _, worth := range []func(p *pattern) bool{
		func(p *pattern) bool { return p.visited >= begins[byNames] || p.why != None },
		func(p *pattern) bool { return p.trial != nil || p.why != None },
		func(*pattern) bool { return false },
	} {
		for key, p := range j.patterns {
			if !worth(p) {
				j.forget(p)
				delete(j.patterns, key)
			}
		}
		if len(j.patterns) < maxPatterns*3/4 {
			return
		}
	}
}

func (j *Judge) forget(p *pattern) {
	if p.why != None {
		j.left.Add(-1)
	}
	if p.trial != nil {
		j.end(p)
		j.trials = slices.DeleteFunc(j.trials, func(other *pattern) bool { return other == p })
	}
}

// begin begins a trial, with what earlier ones have heard unless they are full of it.
func (j *Judge) begin(p *pattern) {
	p.trying = true
	j.trying.Add(1)
	if p.trial == nil {
		if len(j.trials) >= maxTrials {
			j.drop(j.trials[0])
			j.trials = append(j.trials[:0], j.trials[1:]...)
		}
		p.trial = new(trial)
		j.trials = append(j.trials, p)
		return
	}
	p.trial.again()
}

// probe counts a URL that is refused, and reports whether it may pass.
func (p *pattern) probe(u canonical.URL) bool {
	h := xxhash.Sum64String(u.String())
	if h == p.passed {
		return true
	}
	p.refused++
	if p.probeAt == 0 || p.refused < p.probeAt {
		return false
	}
	p.passed = h
	p.probeAt *= 2
	return true
}

// drop takes a trial away whose room is needed. The pattern begins another by and by; one
// that was left stays so, and has no more probes.
func (j *Judge) drop(p *pattern) {
	j.end(p)
	p.trial, p.probeAt = nil, 0
}

// end ends the trial that is on, if one is.
func (j *Judge) end(p *pattern) {
	if p.trying {
		j.trying.Add(-1)
	}
	p.trying, p.trialAt = false, p.visited+p.pause()
	p.count()
}

// again readies the trial for another round.
func (t *trial) again() {
	if t.set > fullFilter {
		*t = trial{}
		return
	}
	*t = trial{filter: t.filter, set: t.set}
}

// add puts a hash into the filter and reports whether it is new there. With the filter as
// full as it gets, a quarter of what is new is taken for known.
func (t *trial) add(h uint64) bool {
	i, bit := h%filterBits/64, uint64(1)<<(h>>32%64)
	if t.filter[i]&bit != 0 {
		return false
	}
	t.filter[i] |= bit
	t.set++
	return true
}

// news is what a page says that is new.
func (t *trial) news(text *neardup.Text) (words, numbers, images int) {
	count := func(list []uint64) (n int) {
		for _, h := range list {
			if t.add(h) {
				n++
			}
		}
		return n
	}
	return count(text.Runs), count(text.Numbers), count(text.Images)
}

// hear takes in the text of a page, in a trial or of a pattern that was left.
func (j *Judge) hear(p *pattern, look *Look, l level, text *neardup.Text, nothing bool) {
	t := p.trial
	if text.Different() < fewWords && len(text.Images) == 0 && p.why == None {
		if t.unheard++; p.trying && t.unheard == maxUnheard {
			j.end(p)
		}
		return
	}
	words, numbers, images := t.news(text)
	stale := words <= staleWords && !look.newTitle[l] || words == 0 || nothing && words <= nothingWords
	stale = stale && numbers <= staleNumbers && images == 0
	switch {
	case p.why != None:
		if !stale && !nothing { // it was on its way when the pattern was left, or a probe
			p.reopen()
			j.left.Add(-1)
		}
		return
	case !p.trying:
		return
	}
	t.read++
	t.weigh(words+images, stale, nothing)
	switch {
	case t.read > teaching && t.score >= needs[l]*j.cfg.MaxStale:
		if p.grows() {
			j.leave(p, &look.shape, l)
		} else {
			j.end(p)
		}
	case t.ended(l):
		j.end(p)
		p.proven = true
	}
}

// weigh counts a page that was read.
func (t *trial) weigh(news int, stale, nothing bool) {
	switch {
	case t.read == 1: // what all pages share
	case t.read <= steady+1:
		t.early += news
	case t.read > teaching && t.read <= teaching+steady:
		t.late += news
	}
	if t.read <= teaching {
		return
	}
	if !stale {
		t.score = max(0, t.score-freshWeight)
		return
	}
	t.score++
	t.stale++
	if nothing {
		t.nothing++
	}
}

// ended reports whether a trial ends well: the pages bring as much as the first ones did,
// have brought more than the filter can tell, or have been heard for long.
func (t *trial) ended(l level) bool {
	return t.read == teaching+steady && t.stale <= steady/4 && 2*t.late >= t.early ||
		t.set > fullFilter || t.read >= longTrial*needs[l]
}

// leave leaves a pattern.
func (j *Judge) leave(p *pattern, s *shape, l level) {
	t := p.trial
	switch {
	case 4*t.nothing >= 3*t.stale:
		p.why = Soft404
	case s.dated && l < byDir:
		p.why = Calendar
	case l == byPath:
		p.why = Parameters
	default:
		p.why = PatternBudget
	}
	j.end(p)
	p.refused, p.probeAt, p.proven = 0, firstProbe, false
	j.left.Add(1)
}

// reopen opens a pattern that was left.
func (p *pattern) reopen() {
	p.why, p.trialAt = None, p.visited+begins[byNames]
}
