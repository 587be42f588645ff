package crawlers_test

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, // what a fiber app starts and never ends
		goleak.IgnoreTopFunction("github.com/gofiber/fiber/v2/internal/memory.(*Storage).gc"),
		goleak.IgnoreTopFunction("github.com/gofiber/fiber/v2/utils.StartTimeStampUpdater.func1.1"))
}

// What to compare. The defaults are for `make test`: they show that every client finds
// its server and is measured.
var (
	cellTime = flag.Duration("compare.time", 2*time.Second, "how long each client crawls each server")
	rtt      = flag.Duration("compare.rtt", 20*time.Millisecond, "round trip between client and server; zero means none is added")
	columns  = flag.String("compare.clients", "", "names of clients, by comma; empty means all that are installed")
)

// searching is the time a client has to find a limit; what comes after it is how it
// lives with the limit, and has figures of its own.
const searching = time.Minute

// client is a crawler under comparison.
type client struct {
	name string
	// crawl asks for page+"0", page+"1" and so on for that long, and some seconds more
	// at most: what comes later is not counted.
	crawl func(t *testing.T, page string, d time.Duration)
}

// pick returns the items that a flag names, in its order, and all without any.
func pick[T any](t *testing.T, all []T, names string, name func(T) string) []T {
	t.Helper()
	if names == "" {
		return all
	}
	var picked []T
	for n := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(v T) bool { return name(v) == n })
		require.GreaterOrEqual(t, i, 0, "%q is not known, or not installed", n)
		picked = append(picked, all[i])
	}
	return picked
}

func header(clients []client) string {
	head, rule := "| server | its rule |", "|---|---|"
	for _, c := range clients {
		head += " " + c.name + " |"
		rule += "---|"
	}
	return fmt.Sprintf("%v per cell, %v round trip, %s: used %% / refused %%, first minute; after it\n\n%s\n%s\n",
		*cellTime, *rtt, time.Now().UTC().Format(time.DateOnly), head, rule)
}

// begin writes the head of the file of -limiters.csv, unless it is there: cells may come from several runs.
func begin(t *testing.T) {
	t.Helper()
	if *csvFile == "" {
		return
	}
	if _, err := os.Stat(*csvFile); os.IsNotExist(err) {
		require.NoError(t, os.WriteFile(*csvFile, []byte("server,rule,client,rtt_ms,available,admitted,refused\n"), 0o644))
	}
}

// record appends a cell to the file of -limiters.csv: what was admitted and refused in each second from the first hit on.
func record(t *testing.T, l limited, c client, hits []realserver.Hit) {
	t.Helper()
	if *csvFile == "" {
		return
	}
	admitted, refused := make([]int, int(cellTime.Seconds())), make([]int, int(cellTime.Seconds()))
	for _, h := range hits {
		second := int(h.At.Sub(hits[0].At).Seconds())
		switch {
		case second >= len(admitted):
		case h.Status/100 == 2:
			admitted[second]++
		default:
			refused[second]++
		}
	}
	f, err := os.OpenFile(*csvFile, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	list := func(n []int) string { return strings.Trim(fmt.Sprint(n), "[]") }
	w := csv.NewWriter(f)
	require.NoError(t, w.Write([]string{
		l.name, l.rule, c.name, strconv.FormatInt(rtt.Milliseconds(), 10), strconv.FormatFloat(l.available, 'f', 3, 64), list(admitted), list(refused),
	}))
	w.Flush()
	require.NoError(t, w.Error())
}

// figures takes the time from the first hit: how long a client takes to start is not
// the question.
func figures(t *testing.T, hits []realserver.Hit, available float64, d time.Duration) string {
	t.Helper()
	require.NotEmpty(t, hits, "nobody came")
	begin := hits[0].At
	end := begin.Add(d)
	mid := begin.Add(min(searching, d))
	cell := figure(realserver.Measure(hits, begin, mid, available))
	if mid.Before(end) {
		cell += "; " + figure(realserver.Measure(hits, mid, end, available))
	}
	return cell
}

func figure(f realserver.Figures) string {
	return fmt.Sprintf("%.1f / %.2f", 100*f.Used, 100*f.RefusedShare())
}

// TestFigures holds a cell to what it says about a log that can be counted by hand.
func TestFigures(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	var hits []realserver.Hit
	for s := range 180 { // one a second, every fourth of the second minute refused; a third that is not looked at
		h := realserver.Hit{At: begin.Add(time.Duration(s) * time.Second), Status: 200}
		if s >= 60 && s < 120 && s%4 == 0 {
			h.Status = 429
		}
		hits = append(hits, h)
	}
	require.Equal(t, "50.0 / 0.00; 37.5 / 25.00", figures(t, hits, 2, 2*time.Minute))
	require.Equal(t, "50.0 / 0.00", figures(t, hits, 2, 30*time.Second))
}
