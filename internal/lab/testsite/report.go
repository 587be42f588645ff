package testsite

import (
	"maps"
	"net/http"
	"reflect"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// record is what one host has seen. Its host guards it. Its size does not grow during a run: it has one bit per URL, a
// second of buckets, and as many statuses as the site can give.
type record struct {
	HostReport // the counts

	open        int
	first, last clock.Instant
	peak        peakMeter

	retryUntil clock.Instant // end of the latest Retry-After; zero means none so far
	graceUntil clock.Instant // a request that arrives earlier was sent before the refusal was read

	robotsAnswered   clock.Instant // first response; unknown before it
	robotsForbidsAll bool          // the last response was a 5xx
	lastPage         clock.Instant // the last page request after robotsAnswered; unknown before it

	served []uint64 // a bit per URL with content
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

// refuse records a refusal with a Retry-After that ends at until. Without a Retry-After, until is now.
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
	// The network may shorten a gap a little: a tenth is allowed, but no more than the default grace.
	if r.lastPage != unknown && now.Sub(r.lastPage) < delay-min(defaultGrace, delay/10) {
		r.DelayViolations++
	}
	r.lastPage = now
}

// robotsAnswer records the status of a response to robots.txt. A 429 changes nothing; a 5xx disallows the whole host
// (RFC 9309, 2.3.1.4).
func (r *record) robotsAnswer(now clock.Instant, status int) {
	if status == http.StatusTooManyRequests {
		return
	}
	r.robotsForbidsAll = status >= 500
	if r.robotsAnswered == unknown {
		r.robotsAnswered = now
	}
}

// serve records that the URL of a bit was served in full, and reports whether for the first time.
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

// rate returns the mean number of arrivals per second between the first and the last.
func (r *record) rate() float64 {
	span := r.last.Sub(r.first).Seconds()
	if r.Requests < 2 || span <= 0 {
		return 0
	}
	return float64(r.Requests-1) / span
}

// peakBuckets divides the second over which arrivals are counted, so that the window is 0.99 to 1 s long. It never
// counts an arrival too many, and misses one percent of the second at worst.
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

// Report is what the hosts have seen so far. It is a copy that does not change.
type Report struct {
	Seed    uint64        `json:"seed"`
	Elapsed time.Duration `json:"elapsed_ns"` // since New
	Grace   time.Duration `json:"grace_ns"`   // see HostReport.InFlight
	Hosts   []HostReport  `json:"hosts"`
	Total   HostReport    `json:"total"` // sums only: gaps and rates are those of one host
}

// HostReport is what one host has seen. A request is counted in Statuses, Resets, Hangs or Left, or is still open.
type HostReport struct {
	Name     string        `json:"name"`
	URL      string        `json:"url,omitempty"`
	Requests int64         `json:"requests"` // all that arrived, robots.txt included
	Statuses map[int]int64 `json:"statuses"`
	Resets   int64         `json:"resets"` // connections cut by the host
	Hangs    int64         `json:"hangs"`  // requests the host never answered
	Left     int64         `json:"left"`   // requests that the client gave up, or that the end of the site cut off
	Bytes    int64         `json:"bytes"`  // of bodies, as sent

	Refusals         int64 `json:"refusals"`           // 429 and 503 by limit, script, outage or robots status
	InsideRetryAfter int64 `json:"inside_retry_after"` // requests that arrived during a Retry-After
	InFlight         int64 `json:"in_flight"`          // the same, but within Grace of the refusal that began it
	Unavailable      int64 `json:"unavailable"`        // of Refusals, those with a status of 5xx

	RefusedPer1000 float64 `json:"refused_per_1000"` // Refusals per thousand Requests. Zero below one request.
	Bans           int64   `json:"bans"`             // times the address shut its clients out
	Banned         int64   `json:"banned"`           // requests during a ban; Refusals does not include them

	MinGap  time.Duration `json:"min_gap_ns"` // between two arrivals; zero below two
	Rate    float64       `json:"rate"`       // mean arrivals per second from first to last; zero below two
	Peak    int           `json:"peak"`       // most arrivals in any second, seen in steps of 10ms
	Allowed float64       `json:"allowed"`    // requests per second by the limits in the long run; zero if unlimited
	MaxOpen int           `json:"max_open"`   // most requests open at the same time

	Usage

	URLs       int   `json:"urls"`       // with content, and not disallowed
	Distinct   int64 `json:"distinct"`   // URLs with content served in full by GET
	Duplicates int64 `json:"duplicates"` // how often one was served in full again
	// Listed counts the pages of URLs that only the sitemap names, including disallowed ones, and ListedServed those of
	// Distinct.
	Listed       int   `json:"listed,omitempty"`
	ListedServed int64 `json:"listed_served,omitempty"`

	Robots           int64 `json:"robots"`            // requests for robots.txt
	BeforeRobots     int64 `json:"before_robots"`     // page requests before the first answer to one
	RobotsViolations int64 `json:"robots_violations"` // page requests to disallowed paths, or under a 5xx robots.txt
	DelayViolations  int64 `json:"delay_violations"`  // page requests closer than Crawl-delay, less a tenth or 50ms
}

// Report returns a copy of the record of every host. During a run it is exact for each host, but the hosts are copied
// one after another.
func (s *Site) Report() Report {
	r := Report{
		Seed: s.cfg.Seed, Elapsed: time.Duration(s.now()), Grace: s.cfg.Grace,
		Total: HostReport{Name: "total", Statuses: make(map[int]int64)},
	}
	for _, h := range s.hosts {
		hr := h.report()
		r.Hosts = append(r.Hosts, hr)
		r.Total.add(&hr)
		if h.port == 0 { // the hosts of one address report the same
			r.Total.Bans += hr.Bans
			r.Total.Usage.add(&hr.Usage)
		}
	}
	r.Total.RefusedPer1000 = per1000(r.Total.Refusals, r.Total.Requests)
	return r
}

func per1000(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 1000 * float64(part) / float64(whole)
}

func (h *host) report() HostReport {
	h.mu.Lock()
	r := &h.rec
	hr := r.HostReport
	hr.Statuses = maps.Clone(r.Statuses)
	hr.Rate, hr.Peak, hr.RefusedPer1000 = r.rate(), int(r.peak.peak), per1000(r.Refusals, r.Requests)
	h.mu.Unlock()
	hr.Name, hr.URL, hr.URLs, hr.Listed = h.cfg.Name, h.site.URL(h.index), h.urls, h.cfg.Listed
	if h.gate != nil {
		h.gate.report(&hr)
	}
	return hr
}

// add adds the counts of h to those of t. It leaves out what has no sum: gaps, rates, limits, bans, and the most
// requests open at a time.
func (t *HostReport) add(h *HostReport) {
	for status, n := range h.Statuses {
		t.Statuses[status] += n
	}
	t.URLs += h.URLs
	t.Listed += h.Listed
	to, from := reflect.ValueOf(t).Elem(), reflect.ValueOf(h).Elem()
	for f, v := range to.Fields() {
		if v.Type() == reflect.TypeFor[int64]() && f.Name != "Bans" {
			v.SetInt(v.Int() + from.FieldByIndex(f.Index).Int())
		}
	}
}
