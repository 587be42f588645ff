package peers_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/bench/process"
	"github.com/treadlight/crawl/internal/lab/realserver"
)

// sample is one crawl.
type sample struct {
	process.Usage
	round, pages, requests int
}

// record appends the crawl to the file of -peers.csv.
func (s sample) record(t *testing.T, name string) {
	t.Helper()
	if *csvFile == "" {
		return
	}
	way := "HTTP"
	if *secure {
		way = "TLS and gzip"
	}
	appendTo(t, *csvFile, "way,round,contender,pages,requests,cpu_s,wall_s,peak_mb",
		fmt.Sprintf("%s,%d,%s,%d,%d,%.3f,%.3f,%d", way, s.round+1, name, s.pages, s.requests, s.CPU.Seconds(), s.Wall.Seconds(), s.Peak>>20))
}

// appendTo adds a line to a file, which has a head.
func appendTo(t *testing.T, path, head, line string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		text, err = []byte(head+"\n"), nil
	}
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(text, line+"\n"...), 0o644))
}

// perCPU is pages per second of processor time.
func (s sample) perCPU() float64 { return float64(s.pages) / max(s.CPU.Seconds(), 1e-9) }

// result is all crawls of a contender that came to their end.
type result struct {
	contender
	failure string // of the last that did not; empty if all did
	samples []sample
}

// spread is the middle, least and most of some figures; zeros of none.
type spread struct{ median, least, most float64 }

func spreadOf(v []float64) spread {
	if len(v) == 0 {
		return spread{}
	}
	slices.Sort(v)
	n := len(v)
	return spread{median: (v[(n-1)/2] + v[n/2]) / 2, least: v[0], most: v[n-1]}
}

func (r result) spread(figure func(sample) float64) spread {
	var v []float64
	for _, s := range r.samples {
		v = append(v, figure(s))
	}
	return spreadOf(v)
}

// ratio sets pages per second of processor time beside another's of the same round.
func (r result) ratio(to result) spread {
	var v []float64
	for _, s := range r.samples {
		for _, other := range to.samples {
			if other.round == s.round && other.pages > 0 {
				v = append(v, s.perCPU()/other.perCPU())
			}
		}
	}
	return spreadOf(v)
}

// table writes Markdown: medians over the rounds, and least to most where that says
// something.
func table(results []result) string {
	var b strings.Builder
	b.WriteString("| contender | pages | requests | CPU s | pages per CPU-s |")
	for _, name := range yardsticks() {
		b.WriteString(" × " + name + " |")
	}
	b.WriteString(" pages/s | peak MB | |\n|---|" + strings.Repeat("--:|", 6+len(yardsticks())) + "---|\n")
	for _, r := range results {
		b.WriteString(r.row(results))
	}
	return b.String()
}

func (r result) row(all []result) string {
	note := r.note
	if r.missing != "" {
		note = "missing: " + r.missing
	}
	if r.failure != "" {
		line, _, _ := strings.Cut(r.failure, "\n")
		note += "; FAILED: " + strings.ReplaceAll(line, "|", "/")
	}
	cells := []string{
		r.name,
		span("%.0f", r.spread(func(s sample) float64 { return float64(s.pages) })),
		span("%.0f", r.spread(func(s sample) float64 { return float64(s.requests) })),
		span("%.2f", r.spread(func(s sample) float64 { return s.CPU.Seconds() })),
		span("%.0f", r.spread(sample.perCPU)),
	}
	for _, name := range yardsticks() {
		var to result
		if i := slices.IndexFunc(all, func(r result) bool { return r.name == name }); i >= 0 {
			to = all[i]
		}
		cells = append(cells, span("%.2f", r.ratio(to)))
	}
	cells = append(
		cells,
		span("%.0f", r.spread(func(s sample) float64 { return float64(s.pages) / max(s.Wall.Seconds(), 1e-9) })),
		span("%.0f", r.spread(func(s sample) float64 { return float64(s.Peak) / (1 << 20) })),
		note,
	)
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// span writes a spread: its middle, and from where to where if that says more.
func span(format string, s spread) string {
	if s == (spread{}) {
		return "–"
	}
	text := fmt.Sprintf(format, s.median)
	if least, most := fmt.Sprintf(format, s.least), fmt.Sprintf(format, s.most); least != most {
		text += " (" + least + "–" + most + ")"
	}
	return text
}

func TestTable(t *testing.T) {
	at := func(round, pages int, cpu time.Duration) sample {
		return sample{round: round, pages: pages, requests: pages + 1, Usage: process.Usage{CPU: cpu, Wall: time.Second, Peak: 10 << 20}}
	}
	got := table([]result{
		{contender: contender{name: "ours", note: "fast"}, samples: []sample{at(0, 100, time.Second), at(1, 100, 2*time.Second), at(2, 100, 4*time.Second)}},
		// Failed in the second round, so that two ratios are left.
		{contender: contender{name: "wget2"}, failure: "exit status 1: a | b\nand more", samples: []sample{at(0, 50, time.Second), at(2, 50, time.Second)}},
		{contender: contender{name: "none", missing: "not installed"}},
	})
	require.Equal(t, `| contender | pages | requests | CPU s | pages per CPU-s | × wget2 | × tokens | × crawl off | pages/s | peak MB | |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|
| ours | 100 | 101 | 2.00 (1.00–4.00) | 50 (25–100) | 1.25 (0.50–2.00) | – | – | 100 | 10 | fast |
| wget2 | 50 | 51 | 1.00 | 50 | 1.00 | – | – | 50 | 10 | ; FAILED: exit status 1: a / b |
| none | – | – | – | – | – | – | – | – | – | missing: not installed |
`, got)
}

func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		in   []float64
		want spread
	}{
		{nil, spread{}},
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{4, 1}, spread{2.5, 1, 4}},
		{[]float64{9, 1, 2}, spread{2, 1, 9}},
	} {
		require.Equal(t, tc.want, spreadOf(tc.in))
	}
}

// What is counted of a log is each page once, and only what was served.
func TestCounting(t *testing.T) {
	hits, err := realserver.ParseHits(strings.NewReader(`end=1.0 took=0 status=404 after=- request=GET /robots.txt HTTP/1.1
end=1.1 took=0 status=200 after=- request=GET / HTTP/1.1
end=1.2 took=0 status=200 after=- request=GET /a.html HTTP/1.1
end=1.3 took=0 status=200 after=- request=GET /a.html?again HTTP/1.1
end=1.4 took=0 status=200 after=- request=GET /style.css HTTP/1.1
end=1.5 took=0 status=404 after=- request=GET /gone.htm HTTP/1.1
end=1.6 took=0 status=200 after=- request=GET / HTTP/1.1
end=1.7 took=0 status=400 after=- request=
`))
	require.NoError(t, err)
	require.Equal(t, 2, pages(hits))
	require.Equal(t, []string{"/", "/a.html", "/a.html?again", "/style.css", "/gone.htm"}, asked(hits))
}
