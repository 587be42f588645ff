package live

import (
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl"
)

const (
	// historyTime is how far back the live view remembers the crawl: what a trend is made of.
	historyTime = 2 * time.Minute
	// maxMoments bounds it where clocks or snapshots are odd: two a second.
	maxMoments = 256
	// trailRoom is how many rates of a host are kept, one a second.
	trailRoom = 32
	// trailEvery is the least time between two of them.
	trailEvery = time.Second
	// maxTrails bounds the hosts: a snapshot has fifty by their queues, and fifty by use.
	maxTrails = 256
	// paceTime is what a rate is taken over: at a page a second, half a second has one page or
	// none, and five seconds have five.
	paceTime = 5 * time.Second
)

// history is what a crawl and the hosts of its snapshots were like of late. Its zero value is
// ready. It is not safe for concurrent use.
type history struct {
	moments []instant // the oldest first
	trails  map[string]*trail
}

// instant is the crawl at an instant. Counts are from its beginning on.
type instant struct {
	at           time.Time
	elapsed      float64 // seconds
	pages, bytes int64
	left         int64 // URLs that are queued or under way
}

// trail is the way of one host.
type trail struct {
	rates []float64 // allowed per second, the oldest first
	asked []int     // URLs in all, as many as rates; -1 where that is not known
	at    time.Time // of the last
}

// note adds a snapshot. Hosts that snapshots have not had for as long as a trail reaches are
// forgotten: what they were like then is no trend.
func (p *history) note(s *crawl.Snapshot) {
	p.moments = append(p.moments, instant{s.Time, s.ElapsedSeconds, s.Pages, s.Bytes, s.Frontier.Queued + s.Frontier.Leased})
	drop := max(len(p.moments)-maxMoments, 0)
	for drop < len(p.moments)-1 && s.Time.Sub(p.moments[drop].at) > historyTime {
		drop++
	}
	p.moments = append(p.moments[:0], p.moments[drop:]...)
	if p.trails == nil {
		p.trails = make(map[string]*trail)
	}
	asked := make(map[string]int, len(s.Hosts))
	for i := range s.Hosts {
		asked[s.Hosts[i].Host] = s.Hosts[i].Pages
	}
	for i := range s.Limiter.Top {
		d := &s.Limiter.Top[i]
		n, ok := asked[d.Domain]
		if !ok && int(s.Frontier.Hosts) > len(s.Hosts) {
			n = -1 // it is not among those that the snapshot has
		}
		p.step(d.Domain, s.Time, d.FillRate, n)
	}
	for name, t := range p.trails {
		if s.Time.Sub(t.at) > trailRoom*trailEvery {
			delete(p.trails, name)
		}
	}
}

// copy is p as it is now, for another goroutine.
func (p *history) copy() *history {
	c := &history{moments: slices.Clone(p.moments), trails: make(map[string]*trail, len(p.trails))}
	for name, t := range p.trails {
		c.trails[name] = &trail{slices.Clone(t.rates), slices.Clone(t.asked), t.at}
	}
	return c
}

// step adds the rate of a host, and how many URLs it was asked for.
func (p *history) step(host string, at time.Time, rate float64, asked int) {
	t := p.trails[host]
	if t == nil {
		if len(p.trails) >= maxTrails {
			return
		}
		t = new(trail)
		p.trails[host] = t
	}
	if len(t.rates) > 0 && at.Sub(t.at) < trailEvery {
		return
	}
	drop := max(len(t.rates)+1-trailRoom, 0)
	t.rates = append(append(t.rates[:0], t.rates[drop:]...), rate)
	t.asked = append(append(t.asked[:0], t.asked[drop:]...), asked)
	t.at = at
}

// pace is the pages and bytes per second over the last seconds.
func (p *history) pace() (pages, bytes float64) {
	if len(p.moments) == 0 {
		return 0, 0
	}
	last := &p.moments[len(p.moments)-1]
	var from instant // the beginning of the crawl
	for i := range p.moments {
		if m := &p.moments[i]; last.elapsed-m.elapsed >= paceTime.Seconds() {
			from = *m
		}
	}
	if dt := last.elapsed - from.elapsed; dt > 0 {
		return float64(last.pages-from.pages) / dt, float64(last.bytes-from.bytes) / dt
	}
	return 0, 0
}

// stretch is what each column of a trend is taken over, in seconds: two looks, which come a
// little late at times and a little early at others.
const stretch = 0.9

// throughput is the pages per second in each of the last n stretches.
func (p *history) throughput(n int) []float64 {
	var rates []float64
	for i := len(p.moments) - 1; i > 0 && len(rates) < n; {
		to := &p.moments[i]
		j := i - 1
		for j > 0 && to.elapsed-p.moments[j].elapsed < stretch {
			j--
		}
		if dt := to.elapsed - p.moments[j].elapsed; dt >= stretch {
			rates = append(rates, float64(to.pages-p.moments[j].pages)/dt)
		}
		i = j
	}
	slices.Reverse(rates)
	return rates
}

// busy is how many URLs a host was asked for of late; -1 if that is not known.
func (p *history) busy(host string) int {
	t := p.trails[host]
	if t == nil || len(t.asked) == 0 {
		return -1
	}
	from := max(len(t.asked)-1-int(paceTime/trailEvery), 0)
	first, last := t.asked[from], t.asked[len(t.asked)-1]
	if first < 0 || last < 0 {
		return -1
	}
	return last - first
}

// sparks are the heights of a sparkline, the lowest first.
var sparks = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the last n values to a scale that begins at zero, so that a rate that
// hardly moves is drawn as a line. Where there are fewer, what is missing is left blank in
// front.
func sparkline(values []float64, n int) string {
	values = values[max(len(values)-n, 0):]
	top := 0.0
	for _, v := range values {
		if v > top { // never what is no number
			top = v
		}
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", max(n-len(values), 0)))
	for _, v := range values {
		at := 0
		if top > 0 && v > 0 {
			at = min(int(v/top*float64(len(sparks)-1)+0.5), len(sparks)-1)
		}
		b.WriteRune(sparks[at])
	}
	return b.String()
}
