package console

import (
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// window is the time that charts show: from the first sample on, or the last minutes, and at least half a minute.
func window(first, now time.Time, span string) (from, to time.Time) {
	const least = 30 * time.Second
	from = first
	if from.IsZero() {
		from = now
	}
	if begin := now.Add(-spanRecent); span != spanAll && from.Before(begin) {
		from = begin
	}
	if to = now; to.Sub(from) < least {
		to = from.Add(least)
	}
	return from, to
}

// drawing makes the charts of some samples.
type drawing[S any] struct {
	like    dashboard.Chart // what all charts have in common
	samples []S
	at      func(*S) time.Time
}

func (d *drawing[S]) chart(id, title, unit string, lines ...dashboard.Line) dashboard.Chart {
	c := d.like
	c.ID, c.Title, c.Unit, c.Lines = id, title, unit, lines
	return c
}

func (d *drawing[S]) gauge(name, class string, value func(*S) float64) dashboard.Line {
	l := dashboard.Line{Name: name, Class: class}
	for i := range d.samples {
		l.Points = append(l.Points, dashboard.Point{At: d.at(&d.samples[i]), Value: value(&d.samples[i])})
	}
	return l
}

// rate is how fast a counter grows, at the end of each step. An unknown counter is negative and leaves a gap.
func (d *drawing[S]) rate(name, class string, counter func(*S) int64) dashboard.Line {
	l := dashboard.Line{Name: name, Class: class}
	for i := 1; i < len(d.samples); i++ {
		before, now := &d.samples[i-1], &d.samples[i]
		p := dashboard.Point{At: d.at(now), Value: math.NaN()}
		from, to := counter(before), counter(now)
		if took := p.At.Sub(d.at(before)).Seconds(); took > 0 && from >= 0 && to >= from {
			p.Value = float64(to-from) / took
		}
		l.Points = append(l.Points, p)
	}
	return l
}

func chartsOf(ms []crawlSample, now time.Time, span string) []dashboard.Chart {
	first := time.Time{}
	if len(ms) > 0 {
		first = ms[0].at
	}
	from, to := window(first, now, span)
	type sample = crawlSample
	d := drawing[sample]{dashboard.Chart{From: from, To: to, AtLeast: 1}, ms, func(m *sample) time.Time { return m.at }}
	return []dashboard.Chart{
		d.chart("throughput", "Throughput", "per second",
			d.rate("pages", "a", func(m *sample) int64 { return m.pages }),
			d.rate("requests", "b", func(m *sample) int64 { return m.requests }),
			d.rate("errors", "c", func(m *sample) int64 { return m.errors })),
		d.chart("queue", "Queue", "URLs", d.gauge("queued", "a", func(m *sample) float64 { return float64(m.queued) })),
		d.chart("flight", "Requests in flight", "requests",
			d.gauge("in flight", "a", func(m *sample) float64 { return float64(m.inFlight) }),
			d.gauge("waiting for a permit", "b", func(m *sample) float64 { return float64(m.waiting) })),
		d.chart("circuits", "Hosts not asked for now", "hosts",
			d.gauge("open circuit", "a", func(m *sample) float64 { return float64(m.open) }),
			d.gauge("half-open circuit", "b", func(m *sample) float64 { return float64(m.half) })),
	}
}

// pageRate says how many pages came per second in the last ten seconds; empty if that is not known yet.
func pageRate(ms []crawlSample) string {
	if len(ms) < 2 {
		return ""
	}
	from, to := &ms[max(0, len(ms)-11)], &ms[len(ms)-1]
	return dashboard.Number(float64(to.pages-from.pages)/max(to.at.Sub(from.at).Seconds(), 1)) + " a second"
}

// thinned is every fifth sample, and the last: enough for a curve in a row of a table.
func thinned(samples []hostSample) []hostSample {
	const step = 5
	var some []hostSample
	for i := (len(samples) - 1) % step; i >= 0 && i < len(samples); i += step {
		some = append(some, samples[i])
	}
	return some
}

// rateChart is the rate that a host was given beside its limit, its refusals and its pauses.
func rateChart(samples []hostSample, events []ratelimit.Event, now time.Time, span string, more ...dashboard.Line) dashboard.Chart {
	like := hostChart(samples, events, now, span)
	like.ID, like.Title, like.Unit = "rate", "Rate", "requests per second"
	rates := ratePoints(samples, events, pausesOf(events, now))
	like.Lines = append([]dashboard.Line{
		{Name: "allowed", Class: "a", Points: rates},
		{Name: "limit", Class: "c", Points: limitPoints(samples, rates)},
	}, more...)
	return like
}

// hostChart is what all charts of a host have in common.
func hostChart(samples []hostSample, events []ratelimit.Event, now time.Time, span string) dashboard.Chart {
	first := time.Time{}
	if len(samples) > 0 {
		first = samples[0].at
	}
	if len(events) > 0 && (first.IsZero() || events[0].Time.Before(first)) {
		first = events[0].Time
	}
	from, to := window(first, now, span)
	return dashboard.Chart{From: from, To: to, Bands: append(bandsOf(samples, events, now), pausesOf(events, now)...), Marks: marksOf(events)}
}

// hostCharts are the charts of a host. Its rate has a point for each sample and, between two samples, one for each
// event.
func hostCharts(samples []hostSample, events []ratelimit.Event, now time.Time, span string) []dashboard.Chart {
	type sample = hostSample
	d := drawing[sample]{hostChart(samples, events, now, span), samples, func(b *sample) time.Time { return b.at }}
	return []dashboard.Chart{
		rateChart(samples, events, now, span, d.rate("sent", "b", func(b *sample) int64 { return int64(b.asked) })),
		d.chart("latency", "Latency", "ms",
			d.gauge("mean", "a", func(b *sample) float64 { return float64(b.avg) }),
			d.gauge("95th percentile", "c", func(b *sample) float64 { return float64(b.p95) })),
		d.chart("failures", "Failures, refusals apart", "% of the last requests",
			d.gauge("failed", "b", func(b *sample) float64 { return 100 * float64(b.errorRate) })),
		d.chart("flight", "Requests in flight", "requests",
			d.gauge("in flight", "a", func(b *sample) float64 { return float64(b.inFlight) })),
	}
}

// ratePoints is the rate of a host: samples and, between them, the steps of its events. During a hold, or while the
// circuit is open, it is zero, as no request is sent.
func ratePoints(samples []hostSample, events []ratelimit.Event, pauses []dashboard.Band) []dashboard.Point {
	points := make([]dashboard.Point, 0, len(samples)+2*len(events))
	for i := range samples {
		p := dashboard.Point{At: samples[i].at, Value: float64(samples[i].rate)}
		held := func(b dashboard.Band) bool { return b.From.Before(p.At) && p.At.Before(b.To) }
		if samples[i].state == breaker.Open || slices.ContainsFunc(pauses, held) {
			p.Value = 0
		}
		points = append(points, p)
	}
	for i := range events {
		if e := &events[i]; e.FromRPS > 0 || e.ToRPS > 0 {
			points = append(points, dashboard.Point{At: e.Time, Value: e.FromRPS}, dashboard.Point{At: e.Time, Value: e.ToRPS})
		}
	}
	slices.SortStableFunc(points, func(a, b dashboard.Point) int { return a.At.Compare(b.At) })
	return points
}

// limitPoints is the limit of a host where it is known. In a search the lowest rate that was refused may be far above all
// that was sent; what is more than twice the highest rate would make the rest of the chart flat, and is left out.
func limitPoints(samples []hostSample, rates []dashboard.Point) []dashboard.Point {
	highest := 0.0
	for _, p := range rates {
		highest = max(highest, p.Value)
	}
	points := make([]dashboard.Point, len(samples))
	for i := range samples {
		points[i] = dashboard.Point{At: samples[i].at, Value: math.NaN()}
		if limit := float64(samples[i].limit); limit > 0 && limit <= 2*highest {
			points[i].Value = limit
		}
	}
	return points
}

func marksOf(events []ratelimit.Event) []dashboard.Mark {
	marks := make([]dashboard.Mark, len(events))
	for i := range events {
		e := &events[i]
		marks[i] = dashboard.Mark{At: e.Time, Kind: dashboard.KindOf(e), Text: e.Time.UTC().Format("15:04:05") + " " + e.Text}
	}
	return marks
}

// pausesOf are the times in which no request was sent because of an event, each until the next event that ends it.
// Where two overlap, the first is drawn whole, and of the second the rest.
func pausesOf(events []ratelimit.Event, now time.Time) []dashboard.Band {
	var pauses []dashboard.Band
	var end time.Time // of the last pause
	for i := range events {
		e := &events[i]
		if e.HoldMS <= 0 || e.ToRPS > 0 || e.State == breaker.Open {
			continue
		}
		from, until := e.Time, e.Time.Add(time.Duration(e.HoldMS)*time.Millisecond)
		for _, later := range events[i+1:] {
			if later.ToRPS > 0 && later.Time.Before(until) {
				until = later.Time
				break
			}
		}
		if from.Before(end) {
			from = end
		}
		if until.After(now) {
			until = now
		}
		if until.After(from) {
			pauses = append(pauses, dashboard.Band{From: from, To: until, Kind: dashboard.Open, Text: "no requests: " + e.Text})
			end = until
		}
	}
	return pauses
}

// bandsOf are the times in which the circuit was not closed. Events say when such a time began, samples that it goes
// on.
func bandsOf(samples []hostSample, events []ratelimit.Event, now time.Time) []dashboard.Band {
	type change struct {
		at    time.Time
		state breaker.State
	}
	changes := make([]change, 0, len(samples)+len(events)+1)
	for i := range samples {
		changes = append(changes, change{samples[i].at, samples[i].state})
	}
	for i := range events {
		changes = append(changes, change{events[i].Time, events[i].State})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	var bands []dashboard.Band
	for i := 0; i < len(changes); {
		end := i + 1
		for end < len(changes) && changes[end].state == changes[i].state {
			end++
		}
		until := now
		if end < len(changes) {
			until = changes[end].at
		}
		if b, ok := bandTexts[changes[i].state]; ok {
			b.From, b.To = changes[i].at, until
			bands = append(bands, b)
		}
		i = end
	}
	return bands
}

var bandTexts = map[breaker.State]dashboard.Band{
	breaker.Open:     {Kind: dashboard.Open, Text: "no requests"},
	breaker.HalfOpen: {Kind: dashboard.Half, Text: "probes only"},
}
