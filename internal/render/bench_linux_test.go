package render

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/rendering"
)

// BenchmarkRender renders a page that a script builds of data, by one browser at a time and by two: pages a second, the
// processor time of the browser for each, and what it has for itself in the end.
func BenchmarkRender(b *testing.B) {
	s := &site{files: map[string]string{
		home:               `<div id=root></div><script src=app.js></script>`,
		home + "data.json": `[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]`,
		home + "app.js": `fetch("data.json").then(r => r.json()).then(l => {
root.innerHTML = l.map(n => "<article><h2>Item " + n + "</h2><p>Some words of it.</p><a href=/item/" + n + ">more</a></article>").join(""); });`,
	}}
	for _, browsers := range []int{1, 2} {
		b.Run(fmt.Sprint("browsers=", browsers), func(b *testing.B) {
			r := open(b, rendering.Config{Browsers: browsers})
			require.NoError(b, r.Start(b.Context()))
			b.SetParallelism(browsers)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := r.Render(b.Context(), s.page(b, home)); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
			var ticks, bytes int64
			for range cap(r.pool) {
				one := <-r.pool
				if one != nil {
					ticks += processorTicks(one.proc.Pid)
					bytes += memory(one.proc.Pid)
				}
				r.pool <- one
			}
			b.ReportMetric(float64(ticks)*10/float64(min(b.N, browsers*pagesPerBrowser)), "cpu-ms/page") // a tick is 10 ms
			b.ReportMetric(float64(bytes)/1e6, "MB")
		})
	}
}

// processorTicks are those of the processes of a group, and of those that they have waited for.
func processorTicks(group int) (sum int64) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) < 15 || string(f[2]) != strconv.Itoa(group) {
			continue
		}
		for _, ticks := range f[11:15] {
			n, _ := strconv.ParseInt(string(ticks), 10, 64)
			sum += n
		}
	}
	return sum
}
