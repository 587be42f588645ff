//go:build unix

package extract

import (
	"syscall"
	"testing"
	"time"
)

// BenchmarkCost has our engine and the bare loop take turns on the same pages, a few milliseconds each, and reports
// what each costs in processor time, the collector's included: on a machine that does other things too, their ratio
// still holds.
func BenchmarkCost(b *testing.B) {
	const turn = 64
	pages := benchPages(b)
	ours, bare := time.Duration(0), time.Duration(0)
	read := reader(b, new(Extractor), Options{})
	n := 0
	for at := 0; b.Loop(); at = (at + turn) % len(pages) {
		block := pages[at:min(at+turn, len(pages))]
		ours += cost(b, block, read)
		bare += cost(b, block, tokenize)
		n += len(block)
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(n), "ours-µs/page")
	b.ReportMetric(float64(bare.Microseconds())/float64(n), "tokenizer-µs/page")
	b.ReportMetric(float64(bare)/float64(ours), "ratio")
}

// cost is the processor time that reading pages takes.
func cost(b *testing.B, pages []benchPage, read func(*benchPage) int) time.Duration {
	b.Helper()
	from := cpuTime(b)
	for i := range pages {
		read(&pages[i])
	}
	return cpuTime(b) - from
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
