// Command admission measures what admission costs a request, beside other Go libraries
// that do the same, and prints Markdown tables of ratios.
//
// Each candidate is a middleware around a handler that does nothing, as its library is
// used: its own middleware, key function, memory or Redis store, and the three
// X-RateLimit headers. Limits are so high that everything is let in. A group runs all its
// candidates in turn, round after round, so that a busy machine slows all of them alike;
// a figure is the median of its rounds, and a ratio is the median of those of the rounds.
// In memory it is the time of processors that counts, and with Redis the time that passes.
// The yardstick is the fastest of the other libraries, or the one that the group names.
//
// What has to do with Redis runs on a redis-server of its own, on a free port of
// 127.0.0.1, which ends with the program. Without that program those groups are left out.
//
//	go run ./admission                  # everything, some two minutes
//	go run ./admission -groups redis    # one group
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	rounds := flag.Int("rounds", 25, "how often each candidate runs; the median counts")
	cell := flag.Duration("time", 40*time.Millisecond, "how long each run takes")
	only := flag.String("groups", "", "names of groups, by comma; empty means all")
	flag.Parse()
	b := bench{ctx: ctx, out: os.Stdout, rounds: max(1, *rounds), cell: *cell}
	if err := b.run(strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })); err != nil {
		fmt.Fprintln(os.Stderr, "admission:", err)
		stop()
		os.Exit(1) //nolint:forbidigo // a program of its own
	}
}

// bench is how everything is measured.
type bench struct {
	ctx    context.Context
	out    io.Writer
	rounds int
	cell   time.Duration
	redis  string // the address of our own server; empty if there is none
}

// run prints the groups that are wanted; none means all.
func (b *bench) run(wanted []string) (err error) {
	for _, g := range groups() {
		if len(wanted) > 0 && !slices.Contains(wanted, g.name) {
			continue
		}
		if g.redis && b.redis == "" {
			server, err := startRedis(b.ctx)
			if errors.Is(err, exec.ErrNotFound) {
				if _, err := fmt.Fprintf(b.out, "\n%s is left out: there is no redis-server\n", g.name); err != nil {
					return err
				}
				continue
			} else if err != nil {
				return err
			}
			defer server.stop()
			b.redis = server.addr
		}
		if err := b.group(&g); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return b.ctx.Err()
}

// group measures a group at each of its widths and prints its table.
func (b *bench) group(g *group) error {
	t := table{group: g}
	for _, width := range g.widths {
		column, err := b.column(g, width)
		if err != nil {
			return err
		}
		t.columns = append(t.columns, column)
	}
	_, err := fmt.Fprint(b.out, t.markdown())
	return err
}

// column runs the candidates in turn, round after round, with a load of that width. All
// of them are there from the beginning, so that each finds the same heap.
func (b *bench) column(g *group, width int) (column, error) {
	col := column{width: width, of: make([]series, len(g.candidates))}
	loads := make([]load, len(g.candidates))
	for i, c := range g.candidates {
		h, end, err := c.open(b)
		if err != nil {
			return col, fmt.Errorf("%s: %w", c.name, err)
		}
		defer end()
		if loads[i], err = g.load(h, width, g.keys); err != nil {
			return col, fmt.Errorf("%s: %w", c.name, err)
		}
		defer loads[i].close()
		// Connections, first keys, and code that is not cached yet.
		if _, err := loads[i].measure(b.cell / 4); err != nil {
			return col, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for range b.rounds {
		for i := range loads {
			if err := b.ctx.Err(); err != nil {
				return col, err
			}
			s, err := loads[i].measure(b.cell)
			if err != nil {
				return col, fmt.Errorf("%s: %w", g.candidates[i].name, err)
			}
			col.of[i] = append(col.of[i], s)
		}
	}
	return col, nil
}
