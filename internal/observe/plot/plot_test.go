package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// drawn is the picture, which must be well-formed and lie within its frame.
func drawn(t *testing.T, c *Chart) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, c.Write(&b))
	dec := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		el, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		require.Contains(t, []string{"svg", "title", "desc", "style", "rect", "text", "path"}, el.Name.Local)
		for _, a := range el.Attr {
			require.NotContains(t, a.Value, "NaN")
			require.NotContains(t, a.Value, "Inf")
			if a.Name.Local == "x" {
				v, err := strconv.ParseFloat(a.Value, 64)
				require.NoError(t, err)
				require.True(t, v >= 0 && v <= width, "%s of %s is %v", a.Name.Local, el.Name.Local, v)
			}
		}
	}
	return b.String()
}

func points(values ...float64) []Point {
	var out []Point
	for i, v := range values {
		out = append(out, Point{At: time.Duration(i) * 10 * time.Second, Value: v})
	}
	return out
}

func TestChart(t *testing.T) {
	c := &Chart{Title: "a host", Subject: "what it gives", Unit: "requests/s", Panels: []Panel{
		{Title: "steer", MarksName: "refused", Marks: []Mark{{From: 10 * time.Second, To: 20 * time.Second, N: 3}, {From: 0, To: time.Second}}, Lines: []Line{
			{Name: "capacity", Points: points(10, 10, 5, 5)},
			{Name: "admitted", Style: Solid, Points: points(0, 4, 8, 5)},
			{Name: "rate", Style: Dashed, Points: points(1, 2, math.NaN(), 4)},
		}},
		{Title: "aimd"},
	}}
	svg := drawn(t, c)
	// 10 is the top: zero at 264, the width 880 over 30 seconds.
	require.Contains(t, svg, `<path class="area" d="M64 264V84H650.67V174H944V264z"><title>capacity</title>`)
	require.Contains(t, svg, `<path class="solid" d="M64 264L357.33 192L650.67 120L944 174"><title>admitted</title>`)
	require.Contains(t, svg, `<path class="dashed" d="M64 246L357.33 228M944 192"><title>rate</title>`)
	require.Contains(t, svg, `<rect class="mark" x="357.33" y="265" width="293.33" height="10"><title>3 at 0:10</title>`)
	require.Equal(t, 1, strings.Count(svg, `class="mark" x=`), "what did not happen has no mark")
	require.Equal(t, 2, strings.Count(svg, `class="p"`))
	require.Contains(t, svg, "prefers-color-scheme:dark")
	require.Equal(t, svg, drawn(t, c), "the same chart is the same file")
}

// Whatever is drawn, the file is one that opens.
func TestStrangeCharts(t *testing.T) {
	evil := "</text><script>alert(1)</script>\"'&\x00\xff"
	for _, c := range []Chart{
		{},
		{Panels: []Panel{{}}},
		{Panels: []Panel{{Lines: []Line{{Points: points(math.Inf(1), math.NaN(), math.Inf(-1))}}}}},
		{Panels: []Panel{{Lines: []Line{{Points: points(-5, 1e300, 0, 1e-300)}}}}},
		{Panels: []Panel{{Lines: []Line{{Style: 200, Points: points(1)}}}}},
		{Panels: []Panel{{Marks: []Mark{{From: -time.Hour, To: time.Hour, N: -1}, {From: time.Hour, To: -time.Hour, N: 1 << 40}}}}},
		{Panels: []Panel{{Lines: []Line{{Points: []Point{{At: 1000 * time.Hour, Value: 1}}}}}}},
		{Title: evil, Subject: evil, Unit: evil, Panels: []Panel{{Title: evil, MarksName: evil, Lines: []Line{{Name: evil, Points: points(1, 2)}}}}},
	} {
		require.NotContains(t, drawn(t, &c), "<script")
	}
}

func TestScales(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, -3: 1, math.NaN(): 1, 0.3: 0.5, 1: 1, 1.01: 2, 4: 5, 7: 10, 10: 10, 2000: 2000, 2001: 5000} {
		require.InEpsilon(t, want, NiceCeil(v), 1e-9, "%v", v)
	}
	for d, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, time.Minute: 10 * time.Second, 15 * time.Minute: 2 * time.Minute, 24 * time.Hour: 3 * time.Hour, 1000 * time.Hour: 101 * time.Hour,
	} {
		require.Equal(t, want, timeStep(d))
	}
	for d, want := range map[time.Duration]string{0: "0:00", 65 * time.Second: "1:05", time.Hour + time.Minute: "1:01:00"} {
		require.Equal(t, want, clockTime(d))
	}
	require.NotRegexp(t, regexp.MustCompile(`\d\.\d{3}`), drawn(t, &Chart{Panels: []Panel{{Lines: []Line{{Points: points(1.0/3, 2.0/3, 1)}}}}}))
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWriteFails(t *testing.T) {
	require.ErrorIs(t, (&Chart{Panels: make([]Panel, 20)}).Write(full{}), io.ErrShortWrite)
}
