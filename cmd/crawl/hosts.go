package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
)

// hostsCommand makes the file of --remember readable.
func hostsCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "hosts FILE",
		Short: "Show what crawls have learned of hosts and kept in a file",
		Long: `Hosts shows what 'crawl --remember FILE' keeps for the next crawl: for each host
the rate it tolerates, how long ago it was asked, how long a refusal has lasted,
and what is still to be waited for. The host asked last comes first; what is a
day old is not believed any more and not shown. A host that nothing but your own
maximum held, --max-rate or a rule, is not there: nothing was learned of it. Of
a database the table 'rates' has the same, for any SQLite shell.`,
		Example: `  crawl --remember hosts.jsonl -o p.jsonl https://example.com/
  crawl hosts hosts.jsonl    what the next crawl with this file begins with`,
		DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(fmt.Errorf("hosts needs one FILE, as 'crawl --remember FILE' writes it, and was given %d", len(args)))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			known, damage, err := loadHosts(args[0])
			if err != nil {
				return ioError(noHosts(args[0], err))
			}
			if damage.Lines > 0 {
				say(s.err, "crawl: %s of %s: the first is line %d: %s\n", plural(damage.Lines, "damaged line"), args[0], damage.First, clean(damage.Err.Error()))
			}
			var b strings.Builder
			if len(known) == 0 {
				b.WriteString("nothing that was learned within a day\n")
			} else {
				layout(&b, knownColumns(known, clock.System().Now()), widthOf(s.out))
			}
			_, err = fmt.Fprint(s.out, b.String())
			return outputError(err)
		},
	}
}

// loadHosts reads a file, which unlike for a crawl must exist.
func loadHosts(path string) ([]ratelimit.HostMemory, memory.Damage, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, memory.Damage{}, err
	}
	file, err := memory.At(memory.Config{Path: path, MaxWait: longestWait})
	if err != nil {
		return nil, memory.Damage{}, err
	}
	return file.Load()
}

// noHosts says of a file that is something else what it is, and what to give instead: the
// advice of the crawl, to name a file that does not exist yet, is none for who wants to read.
func noHosts(path string, err error) error {
	if format, ok := errors.AsType[*memory.FormatError](err); !ok || format.Version != 0 {
		return err
	}
	kind := kindOfFile(path)
	switch kind {
	case kindHosts:
		return err
	case "":
		kind = "it is none of this program's files"
	}
	return fmt.Errorf("%s has nothing that was learned of hosts: %s; give one that 'crawl --remember FILE' has written", path, kind)
}

// longestWait is the largest ratelimit.max_retry_after, since the file does not tell which it
// was written under.
const longestWait = 168 * time.Hour

// knownColumns is the table, a column each.
func knownColumns(known []ratelimit.HostMemory, now time.Time) []column {
	t := []column{
		{title: "host", left: true},
		{title: "rate/s", dull: unknown},
		{title: "asked", keep: 1}, // ago
		{title: "refused for", dull: unknown, keep: 2},
		{title: "Retry-After", dull: unknown}, // in
		{title: "held for", dull: unknown},    // in
	}
	for i := range known {
		m := &known[i]
		for c, cell := range []string{
			m.Domain, orUnknown(m.Rate > 0, fmt.Sprintf("%.2f", m.Rate)), seconds(now.Sub(m.LastUsed).Seconds()) + " ago",
			orUnknown(m.Pause > 0, seconds(m.Pause.Seconds())), left(m.RetryUntil, now), left(m.HeldUntil, now),
		} {
			t[c].cells = append(t[c].cells, cell)
		}
	}
	return t
}

// left is how long it is until t, which may have passed: a trial is due then.
func left(t, now time.Time) string {
	return orUnknown(!t.IsZero(), seconds(t.Sub(now).Seconds()))
}

// orUnknown is a cell, or a dash if there is nothing to tell.
func orUnknown(known bool, cell string) string {
	if known {
		return cell
	}
	return unknown
}
