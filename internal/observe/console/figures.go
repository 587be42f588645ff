package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

func figuresOf(s *state) []dashboard.Figure {
	whole := dashboard.Whole
	return []dashboard.Figure{
		{Name: "Pages", Value: whole(s.Pages)},
		{Name: "Requests", Value: whole(s.Requests), Note: whole(s.Retries) + " retries"},
		{Name: "Waited for pace", Value: whole(int64(s.Limiter.Throttled)), Note: "of " + whole(int64(s.Limiter.Requests)) + " permits; " + whole(int64(s.Limiter.Denied)) + " denied by an open circuit"},
		{Name: "Records", Value: whole(s.Records)},
		{Name: "Errors", Value: whole(s.Errors), Note: whole(s.Failed) + " failed requests"},
		{Name: "Queued", Value: whole(s.Frontier.Queued), Note: "of " + whole(s.Frontier.Known) + " known"},
		{Name: "In flight", Value: whole(int64(s.Limiter.InFlight))},
		{Name: "Hosts", Value: whole(s.Frontier.Hosts), Note: whole(int64(s.Limiter.Open)) + " with an open circuit"},
		{Name: "Received", Value: dashboard.Bytes(s.WireBytes), Note: dashboard.Bytes(s.Bytes) + " unpacked"},
		{Name: "Refused by robots.txt", Value: whole(s.Refused)},
	}
}

func outcomesOf(m map[string]int64) []dashboard.Count {
	list := make([]dashboard.Count, 0, len(m))
	for name, n := range m {
		list = append(list, dashboard.Count{Name: strings.ReplaceAll(name, "_", " "), N: n})
	}
	return ranked(list)
}

func ranked(list []dashboard.Count) []dashboard.Count {
	slices.SortFunc(list, func(a, b dashboard.Count) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name)) })
	for i := range list {
		list[i].Share = float64(list[i].N) / float64(max(list[0].N, 1))
	}
	return list
}

// maxWaits is how many reasons are told; gates may have one for each host.
const maxWaits = 12

func waitsOf(rows []dashboard.Row) []dashboard.Count {
	type wait struct{ hosts, urls int64 }
	by := make(map[string]wait)
	for i := range rows {
		r := &rows[i]
		if r.Queued == 0 {
			continue
		}
		w := by[reasonWords(r.Reason)]
		by[reasonWords(r.Reason)] = wait{w.hosts + 1, w.urls + int64(r.Queued)}
	}
	list := make([]dashboard.Count, 0, len(by))
	for name, w := range by {
		list = append(list, dashboard.Count{Name: name, N: w.hosts, Note: dashboard.Whole(w.urls) + " URLs queued"})
	}
	list = ranked(list)
	return list[:min(len(list), maxWaits)]
}

var waitWords = map[string]string{
	"":                   "a free worker",
	"none":               "a free worker",
	"start":              "the initial rate",
	"learned":            "the learned rate",
	"crawl_delay":        "Crawl-delay in robots.txt",
	"retry_after":        "Retry-After of the host",
	"rule":               "the rate or the delay in your settings",
	"breaker":            "an open circuit, after refusals or failures",
	"global":             "the rate limit of all hosts together",
	"shared":             "the rate limit of hosts that share an address or a domain",
	"cap":                "a cap in your settings",
	"quota":              "the next quota of the host",
	"global_concurrency": "the limit of requests in flight of all hosts",
	"global_bytes":       "the limit of bytes per second of all hosts",
	"per_host_max":       "a response: as many requests are in flight as one host may have",
	"max_in_flight":      "a response: as many requests are in flight as the host takes",
	"retry":              "the time of a retry",
	"loading":            "URLs that are being read from the disk",
}

// reasonWords is what a host waits for, in words. A reason with a colon names its host behind it.
func reasonWords(reason string) string {
	if words, ok := waitWords[reason]; ok {
		return words
	}
	short, _, _ := strings.Cut(reason, ":")
	return short
}

func workingOf(s *state) string {
	total := s.ElapsedSeconds * float64(s.Workers.Count)
	if total <= 0 {
		return "The crawl has not begun."
	}
	part := func(seconds float64) int { return int(min(100*seconds/total, 100) + 0.5) }
	return fmt.Sprintf("%d workers: %d %% of the time fetching, %d %% waiting for a permit, the rest without a URL that may be fetched.",
		s.Workers.Count, part(s.Workers.BusySeconds), part(s.Workers.WaitSeconds))
}

func changedOf(force Controls) dashboard.Changed {
	v := dashboard.Changed{Include: force.Include, Exclude: force.Exclude}
	blocked := make([]dashboard.Order, len(force.Blocked))
	for i, host := range force.Blocked {
		blocked[i].Host = host
	}
	ceilings := make([]dashboard.Order, 0, len(force.Ceilings))
	for _, host := range slices.Sorted(maps.Keys(force.Ceilings)) {
		ceilings = append(ceilings, dashboard.Order{Host: host, Value: dashboard.Number(force.Ceilings[host]) + "/s"})
	}
	var more, yetMore int
	v.Blocked, more = dashboard.ListOrders(blocked)
	v.Ceilings, yetMore = dashboard.ListOrders(ceilings)
	v.Unlisted = more + yetMore
	return v
}

func hostFigures(k *Host) []dashboard.Figure {
	var list []dashboard.Figure
	add := func(name, value, note string) {
		list = append(list, dashboard.Figure{Name: name, Value: value, Note: note})
	}
	whole := func(n int) string { return dashboard.Whole(int64(n)) }
	if d := k.Limiter; d != nil {
		add("Rate", dashboard.Number(d.FillRate)+"/s", strings.ReplaceAll(d.LimitedBy.String(), "_", " "))
		add("Circuit", strings.ReplaceAll(d.State.String(), "_", " "), whole(d.ConsecutiveFails)+" failures in a row")
		add("In flight", whole(d.InFlight), whole(d.Waiting)+" waiting")
		add("Latency", dashboard.Number(d.AvgLatencyMS)+" ms", dashboard.Number(d.P95LatencyMS)+" ms at the 95th percentile")
		add("Errors", dashboard.Number(100*d.ErrorRate)+" %", "of the last requests")
		add("Next request", "in "+dashboard.Number(d.NextPermitInMS)+" ms", "")
	}
	if f := k.Frontier; f != nil {
		add("Queued", whole(f.Queued), "")
		add("Fetched", whole(f.Pages), "URLs")
		failures := "none"
		if f.Failures > 0 {
			failures = whole(f.Failures) + " in a row"
		}
		add("Failures", failures, strings.ReplaceAll(f.Trouble, "_", " "))
	}
	return list
}

func describe(v *dashboard.Host, k *Host) {
	circuit := breaker.Closed
	if k.Limiter != nil {
		circuit = k.Limiter.State
	}
	switch f := k.Frontier; {
	case f != nil:
		v.State = StateOf(f, circuit)
		if f.Reason != "" && f.Queued > 0 {
			v.Waits = reasonWords(f.Reason)
		}
	case circuit != breaker.Closed:
		v.State = dashboard.Failing
	}
}

// withEarlier is the events that are kept, behind those from before that the limiter knows.
func withEarlier(kept, known []ratelimit.Event) []ratelimit.Event {
	var list []ratelimit.Event
	for _, e := range known {
		if len(kept) == 0 || e.Time.Before(kept[0].Time) {
			list = append(list, e)
		}
	}
	return append(list, kept...)
}
