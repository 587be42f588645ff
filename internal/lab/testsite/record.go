package testsite

import (
	"net/http"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// record is what one host saw. Its host guards it. Its size does not grow during a run: one
// bit per URL, a second of buckets, and as many statuses as the site can give.
type record struct {
	HostReport // the counts

	open        int
	first, last clock.Instant
	peak        peakMeter

	retryUntil clock.Instant // end of the latest Retry-After; zero: none yet
	graceUntil clock.Instant // arrivals before it were sent before the refusal was read

	robotsAnswered   clock.Instant // when first; unknown before that
	robotsForbidsAll bool          // the last answer was a 5xx
	lastPage         clock.Instant // since robots.txt was answered; unknown before that

	served []uint64 // a bit per URL that has content
}

func newRecord(urls int) record {
	return record{
		HostReport:     HostReport{Statuses: make(map[int]int64)},
		served:         make([]uint64, (urls+63)/64),
		robotsAnswered: unknown,
		lastPage:       unknown,
	}
}

// arrive records a request of any kind. Gaps and rates include robots.txt: to the host it is
// a request like any other.
func (r *record) arrive(now clock.Instant) {
	if r.Requests == 0 {
		r.first = now
	} else if gap := now.Sub(r.last); r.Requests == 1 || gap < r.MinGap {
		r.MinGap = gap
	}
	r.last = now
	r.Requests++
	r.open++
	r.MaxOpen = max(r.MaxOpen, r.open)
	r.peak.add(now)
	switch {
	case now >= r.retryUntil:
	case now < r.graceUntil:
		r.InFlight++
	default:
		r.InsideRetryAfter++
	}
}

// refuse records a refusal with a Retry-After that ends at until; without one until is now.
func (r *record) refuse(now, until clock.Instant, grace time.Duration) {
	r.Refusals++
	if until > now && now >= r.retryUntil {
		r.graceUntil = now.Add(grace)
	}
	r.retryUntil = max(r.retryUntil, until)
}

// page records a request for anything but robots.txt. A disallowed path counts whether the crawler has
// read the file or not.
func (r *record) page(now clock.Instant, disallowed bool, delay time.Duration) {
	if disallowed || r.robotsForbidsAll {
		r.RobotsViolations++
	}
	if r.robotsAnswered == unknown {
		r.BeforeRobots++
		return
	}
	// The network may shorten a gap a little: by up to a tenth, or the default grace.
	if r.lastPage != unknown && now.Sub(r.lastPage) < delay-min(defaultGrace, delay/10) {
		r.DelayViolations++
	}
	r.lastPage = now
}

// robotsAnswer records the status of robots.txt. 429 is not an answer and changes nothing;
// 5xx disallows the whole host (RFC 9309, 2.3.1.4).
func (r *record) robotsAnswer(now clock.Instant, status int) {
	if status == http.StatusTooManyRequests {
		return
	}
	r.robotsForbidsAll = status >= 500
	if r.robotsAnswered == unknown {
		r.robotsAnswered = now
	}
}

// serve records that the URL of bit slot was served in full, and reports whether for the first time.
func (r *record) serve(slot int) bool {
	word, bit := &r.served[slot/64], uint64(1)<<(slot%64)
	if *word&bit != 0 {
		r.Duplicates++
		return false
	}
	*word |= bit
	r.Distinct++
	return true
}

// rate is the mean number of arrivals per second between the first and the last.
func (r *record) rate() float64 {
	span := r.last.Sub(r.first).Seconds()
	if r.Requests < 2 || span <= 0 {
		return 0
	}
	return float64(r.Requests-1) / span
}

// peakBuckets divides the second in which arrivals are counted, so that the window is 0.99 to
// 1 s long: never an arrival too many, and at worst one percent of the second too few.
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
