package testsite

import (
	"math"
	"sort"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// daySteps is in how many steps a cosine is cut. Between two of them it changes by less than
// 4 % of its height.
const daySteps = 96

type span struct {
	from   time.Duration // of the day
	worked time.Duration // what the limiter's clock has gone since the day began
	speed  float64
}

// day is the clock of limiters whose speed changes: its time is the integral of the speed. A
// limiter on it admits at its rate times the speed of the moment. A nil day never changes.
type day struct {
	length time.Duration
	worked time.Duration // of a whole day
	spans  []span
}

func (d *Day) length() time.Duration {
	if d.Length == 0 && (d.Low > 0 || len(d.Table) > 0) {
		return 24 * time.Hour
	}
	return d.Length
}

func newDay(cfg Day) *day {
	d := &day{length: cfg.length()}
	if d.length == 0 {
		return nil
	}
	if cfg.Low > 0 {
		for i := range daySteps {
			angle := 2 * math.Pi * (float64(i) + 0.5) / daySteps // the middle speaks for a step
			d.begin(d.length*time.Duration(i)/daySteps, cfg.Low+(1-cfg.Low)*(1+math.Cos(angle))/2)
		}
	} else {
		d.begin(0, 1)
		for _, h := range cfg.Table {
			d.begin(h.At, h.Speed)
		}
	}
	last := d.spans[len(d.spans)-1]
	d.worked = last.worked + scale(d.length-last.from, last.speed)
	return d
}

// begin adds a span; one that begins where the last one does takes its place.
func (d *day) begin(at time.Duration, speed float64) {
	s := span{from: at, speed: speed}
	if n := len(d.spans); n > 0 {
		last := d.spans[n-1]
		if last.from == at {
			d.spans = d.spans[:n-1]
		}
		s.worked = last.worked + scale(at-last.from, last.speed)
	}
	d.spans = append(d.spans, s)
}

// scale rounds down, so that no limiter admits too early.
func scale(d time.Duration, speed float64) time.Duration { return time.Duration(float64(d) * speed) }

func (d *day) at(rest time.Duration) span {
	return d.spans[sort.Search(len(d.spans), func(i int) bool { return d.spans[i].from > rest })-1]
}

func (d *day) of(now clock.Instant) clock.Instant {
	if d == nil {
		return now
	}
	days, rest := int64(now)/int64(d.length), time.Duration(int64(now)%int64(d.length))
	s := d.at(rest)
	return clock.Instant(days * int64(d.worked)).Add(s.worked + scale(rest-s.from, s.speed))
}

// when is the first instant at which the limiter's clock is no earlier than at.
func (d *day) when(at clock.Instant) clock.Instant {
	if d == nil {
		return at
	}
	days, rest := int64(at)/int64(d.worked), time.Duration(int64(at)%int64(d.worked))
	i := sort.Search(len(d.spans), func(i int) bool { return d.spans[i].worked > rest }) - 1
	s := d.spans[i]
	now := clock.Instant(days * int64(d.length)).Add(s.from + time.Duration(math.Ceil(float64(rest-s.worked)/s.speed)))
	for d.of(now) < at { // what the two roundings left open
		now++
	}
	return now
}

func (d *day) speed(now clock.Instant) float64 {
	if d == nil {
		return 1
	}
	return d.at(time.Duration(int64(now) % int64(d.length))).speed
}

func (d *day) mean() float64 {
	if d == nil {
		return 1
	}
	return float64(d.worked) / float64(d.length)
}
