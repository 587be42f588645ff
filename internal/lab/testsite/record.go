package testsite

import (
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// record is what one host saw. Its host guards it. Whatever happens its size stays:
// one bit per URL, a second of buckets, and as many statuses as the site can give.
type record struct {
	requests int64
	statuses map[int]int64 // keys come from our own Config, so they are few
	bytes    int64
	resets   int64
	hangs    int64
	left     int64 // the client went away before its answer
	refusals int64
	// of refusals: with a status of 5xx
	unavailable int64
	banned      int64 // came during a ban

	open, maxOpen int
	first, last   clock.Instant
	minGap        time.Duration
	peak          peakMeter

	retryUntil clock.Instant // end of the latest Retry-After; zero: none yet
	graceUntil clock.Instant // arrivals before it were on their way already
	inside     int64
	inFlight   int64

	robots           int64
	robotsAnswered   clock.Instant // when first; unknown before that
	robotsForbidsAll bool          // the last answer was a 5xx
	beforeRobots     int64
	violations       int64
	lastPage         clock.Instant // since robots.txt was answered; unknown before that
	delayViolations  int64

	served     []uint64 // a bit per URL that has content
	distinct   int64
	listed     int64 // of distinct, those that the sitemap alone names
	duplicates int64
}

// newRecord has the only memory that grows with the site, which is set aside at once:
// a run that has begun does not fail for lack of it.
func newRecord(urls int) record {
	return record{
		statuses:       make(map[int]int64),
		served:         make([]uint64, (urls+63)/64),
		robotsAnswered: unknown,
		lastPage:       unknown,
	}
}

// arrive notes a request of any kind. Gaps and rates include robots.txt: to the host
// it is a request like any other.
func (r *record) arrive(now clock.Instant) {
	if r.requests == 0 {
		r.first = now
	} else if gap := now.Sub(r.last); r.requests == 1 || gap < r.minGap {
		r.minGap = gap
	}
	r.last = now
	r.requests++
	r.open++
	r.maxOpen = max(r.maxOpen, r.open)
	r.peak.add(now)
	switch {
	case now >= r.retryUntil:
	case now < r.graceUntil:
		r.inFlight++
	default:
		r.inside++
	}
}

// refuse notes a refusal that asks to stay away until until, or just a refusal if
// that is now. The grace runs from the first refusal of an unbroken wait: measured
// from the latest, a client that never stops would always seem to be in flight.
func (r *record) refuse(now, until clock.Instant, grace time.Duration) {
	r.refusals++
	if until > now && now >= r.retryUntil {
		r.graceUntil = now.Add(grace)
	}
	r.retryUntil = max(r.retryUntil, until)
}

// page notes a request for anything but robots.txt, with what robots.txt asks. A
// disallowed path counts whether the crawler has read the file or not, as it should
// have; Crawl-delay counts once it can be known, and between pages only, since
// nobody agrees on whether fetching robots.txt is a visit.
func (r *record) page(now clock.Instant, disallowed bool, delay time.Duration) {
	if disallowed || r.robotsForbidsAll {
		r.violations++
	}
	if r.robotsAnswered == unknown {
		r.beforeRobots++
		return
	}
	if r.lastPage != unknown && now.Sub(r.lastPage) < delay-slack(delay) {
		r.delayViolations++
	}
	r.lastPage = now
}

// slack is by how much the network may shorten a gap: a client that sends exactly
// one delay apart is seen a little closer now and then. A tenth, and at most what
// the default grace grants a request on its way.
func slack(delay time.Duration) time.Duration { return min(defaultGrace, delay/10) }

// robotsAnswer notes what robots.txt was answered with. 429 is no answer but a
// request to come back, and changes nothing; 5xx forbids the whole host (RFC 9309,
// 2.3.1.4).
func (r *record) robotsAnswer(now clock.Instant, status int) {
	if status == http.StatusTooManyRequests {
		return
	}
	r.robotsForbidsAll = status >= 500
	if r.robotsAnswered == unknown {
		r.robotsAnswered = now
	}
}

// serve notes that the URL of bit slot was served in full, and reports whether for the first time.
func (r *record) serve(slot int) bool {
	word, bit := &r.served[slot/64], uint64(1)<<(slot%64)
	if *word&bit != 0 {
		r.duplicates++
		return false
	}
	*word |= bit
	r.distinct++
	return true
}

// rate is the mean number of arrivals per second between the first and the last.
func (r *record) rate() float64 {
	span := r.last.Sub(r.first).Seconds()
	if r.requests < 2 || span <= 0 {
		return 0
	}
	return float64(r.requests-1) / span
}

// peakBuckets divides the second in which arrivals are counted. With a hundred, the
// window seen is 0.99 to 1 s long: never an arrival too many, and one percent of
// the second too few at worst.
const peakBuckets = 100

// peakMeter finds the largest number of arrivals in any second.
type peakMeter struct {
	buckets [peakBuckets]uint32 // ring: bucket i is at index i mod peakBuckets
	at      int64               // the latest bucket
	sum     uint32
	peak    uint32
}

// add counts an arrival, and first empties the buckets that have left the window.
func (m *peakMeter) add(now clock.Instant) {
	i := int64(now) / int64(time.Second/peakBuckets)
	if i-m.at >= peakBuckets {
		*m = peakMeter{at: i, peak: m.peak}
	}
	for m.at < i {
		m.at++
		b := &m.buckets[m.at%peakBuckets]
		m.sum -= *b
		*b = 0
	}
	m.buckets[m.at%peakBuckets]++
	m.sum++
	m.peak = max(m.peak, m.sum)
}
