package trap

import (
	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
)

type pattern struct {
	visited     int      // pages visited
	trialAt     int      // a trial begins after so many pages, if the pattern grows
	since       int      // value of visited when grown was last reset
	grown       int      // URLs found since then
	trial       *trial   // nil if none has begun, or if it was evicted
	trying      bool     // the trial is running
	passedTrial bool     // the last trial passed
	decision    Decision // Follow unless the pattern is skipped
	refused     int      // URLs refused since it was skipped
	probeAt     int      // number of refused URLs at which the next probe is fetched; zero means never
	probed      uint64   // hash of the last probe
}

type trial struct {
	filter   [filterBits / 64]uint64
	set      int // number of bits set in filter
	read     int // pages read
	score    int // number of stale pages, less freshWeight for each fresh one
	early    int // new runs and images of the steady pages that follow the first
	late     int // new runs and images of the steady pages that follow the warm-up
	stale    int // stale pages since the warm-up
	notFound int // stale "not found" pages
	tooShort int // pages with too few words to compare
}

const (
	maxPatterns = 1 << 17 // about 100 bytes each
	maxTrials   = 1 << 10 // 8 KB each
	// A full filter has some 19,000 runs of words: enough to show that pages have new text.
	filterBits = 1 << 16
	fullFilter = filterBits / 4

	warmUp      = 16  // pages; more than there are months
	steady      = 8   // pages after the warm-up that are compared with the first ones
	longTrial   = 160 // pages after which a trial passes
	freshWeight = 12

	staleWords   = 3  // new runs of three words: one new word makes three
	fewWords     = 6  // with fewer different words a page is built by scripts, and cannot be compared
	maxTooShort  = 32 // so many of these pages end a trial
	staleNumbers = 8  // as many as a date and time, a counter and a duration have

	firstProbe = 64
)

// minPages is after how many pages a trial begins, by level. staleFactor times maxStale is the score that ends it.
var (
	minPages    = [levels]int{16, 32, 128, 512}
	staleFactor = [levels]int{1, 2, 4, 8}
)

func (p *pattern) count() { p.since, p.grown = p.visited, 0 }

// grows reports whether at least one URL was found for every two pages visited. If not, the pattern is finite and
// therefore no trap.
func (p *pattern) grows() bool { return 2*p.grown >= p.visited-p.since }

// visitLocked counts a page, and begins a trial when it is due.
func (d *Detector) visitLocked(key uint64, l level) *pattern {
	p, ok := d.patterns.Get(key)
	if !ok {
		p = &pattern{trialAt: minPages[l]}
		d.patterns.Add(key, p)
	}
	p.visited++
	if p.trying || p.decision != Follow || p.visited < p.trialAt {
		return p
	}
	if p.grows() {
		d.begin(p)
	} else {
		p.trialAt = p.visited + minPages[l]
	}
	p.count()
	return p
}

func (d *Detector) forget(p *pattern) {
	if p.decision != Follow {
		d.skipped.Add(-1)
	}
	if p.trial != nil {
		d.trials.Remove(p)
	}
}

// begin begins a trial. It keeps the filter of an earlier trial unless that is full.
func (d *Detector) begin(p *pattern) {
	p.trying = true
	d.trying.Add(1)
	if p.trial == nil {
		p.trial = new(trial)
		d.trials.Add(p, struct{}{})
		return
	}
	if p.trial.set > fullFilter {
		*p.trial = trial{}
		return
	}
	*p.trial = trial{filter: p.trial.filter, set: p.trial.set}
}

// probe counts a refused URL and reports whether to fetch it.
func (p *pattern) probe(u canonical.URL) bool {
	h := xxhash.Sum64String(u.String())
	if h == p.probed {
		return true
	}
	p.refused++
	if p.probeAt == 0 || p.refused < p.probeAt {
		return false
	}
	p.probed = h
	p.probeAt *= 2
	return true
}

func (d *Detector) end(p *pattern) {
	if p.trying {
		d.trying.Add(-1)
	}
	p.trying, p.trialAt = false, p.visited+min(256+p.visited/4, 1024)
	p.count()
}

// add adds a hash to the filter and reports whether it is new. With a full filter, a quarter of the new ones are taken
// for known.
func (t *trial) add(h uint64) bool {
	i, bit := h%filterBits/64, uint64(1)<<(h>>32%64)
	if t.filter[i]&bit != 0 {
		return false
	}
	t.filter[i] |= bit
	t.set++
	return true
}

// addNew adds the text to the filter, and returns how many words, numbers and images are new.
func (t *trial) addNew(text *neardup.Text) (words, numbers, images int) {
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

// addText compares the text of a page whose pattern is in a trial or skipped.
func (d *Detector) addText(p *pattern, v *Visit, l level, text *neardup.Text, notFound bool) {
	t := p.trial
	if text.Different() < fewWords && len(text.Images) == 0 && p.decision == Follow {
		if t.tooShort++; p.trying && t.tooShort == maxTooShort {
			d.end(p)
		}
		return
	}
	words, numbers, images := t.addNew(text)
	stale := words <= staleWords && !v.newTitle[l] || words == 0
	stale = stale && numbers <= staleNumbers && images == 0
	switch {
	case p.decision != Follow:
		if !stale && !notFound { // a page in flight when the pattern was skipped, or a probe
			p.decision, p.trialAt = Follow, p.visited+minPages[byNames]
			d.skipped.Add(-1)
		}
		return
	case !p.trying:
		return
	}
	t.read++
	t.addPage(words+images, stale, notFound)
	switch {
	case t.read > warmUp && t.score >= staleFactor[l]*maxStale:
		if p.grows() {
			d.skip(p, &v.shape, l)
		} else {
			d.end(p)
		}
	case t.ended(l):
		d.end(p)
		p.passedTrial = true
	}
}

func (t *trial) addPage(news int, stale, notFound bool) {
	switch {
	case t.read == 1: // the first page: what all pages share
	case t.read <= steady+1:
		t.early += news
	case t.read > warmUp && t.read <= warmUp+steady:
		t.late += news
	}
	if t.read <= warmUp {
		return
	}
	if !stale {
		t.score = max(0, t.score-freshWeight)
		return
	}
	t.score++
	t.stale++
	if notFound {
		t.notFound++
	}
}

// ended reports whether a trial has passed: pages bring as much as the first ones did, the filter is full, or many
// pages were read.
func (t *trial) ended(l level) bool {
	return t.read == warmUp+steady && t.stale <= steady/4 && 2*t.late >= t.early ||
		t.set > fullFilter || t.read >= longTrial*staleFactor[l]
}

func (d *Detector) skip(p *pattern, s *shape, l level) {
	t := p.trial
	switch {
	case 4*t.notFound >= 3*t.stale:
		p.decision = Soft404
	case s.dated && l < byDir:
		p.decision = Calendar
	case l == byPath:
		p.decision = Parameters
	default:
		p.decision = PatternBudget
	}
	d.end(p)
	p.refused, p.probeAt, p.passedTrial = 0, firstProbe, false
	d.skipped.Add(1)
}
