package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/filekind"
	"github.com/treadlight/crawl/cmd/crawl/internal/human"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/memory"
)

// hostsCommand makes the file of --remember readable.
func hostsCommand(s terminal.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "hosts FILE",
		Short: "Show what crawls have learned of hosts and kept in a file",
		Long: `Hosts shows what 'crawl --remember FILE' keeps for the next crawl: for each host
the rate it tolerates, how long ago it was asked, how long a refusal has lasted,
and what is still to be waited for. The host asked last comes first; what is a
day old is not believed any more and not shown. A host that nothing but your own
maximum held, --max-rate or a rule, is not there: nothing was learned of it. The
file is an SQLite database; its table 'rates' has the same, for any shell.`,
		Example: `  crawl --remember hosts.db -o p.jsonl https://example.com/
  crawl hosts hosts.db    what the next crawl with this file begins with`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage(fmt.Errorf("hosts needs one FILE, as 'crawl --remember FILE' writes it, and was given %d", len(args)))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			known, damage, err := loadHosts(args[0])
			if err != nil {
				return exit.IO(noHosts(args[0], err))
			}
			if damage.Lines > 0 {
				terminal.Say(s.Err, "crawl: %s of %s: the first is line %d: %s\n", human.Plural(damage.Lines, "damaged line"), args[0], damage.First, human.Clean(damage.Err.Error()))
			}
			var b strings.Builder
			if len(known) == 0 {
				b.WriteString("nothing that was learned within a day\n")
			} else {
				human.Layout(&b, knownColumns(known, clock.System().Now()), terminal.WidthOf(s.Out))
			}
			_, err = fmt.Fprint(s.Out, b.String())
			return exit.Output(err)
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
	kind := filekind.Of(path)
	switch kind {
	case filekind.Hosts:
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
func knownColumns(known []ratelimit.HostMemory, now time.Time) human.Rows {
	t := human.Rows{
		{Title: "host", Left: true},
		{Title: "rate/s", Dull: human.Unknown},
		{Title: "asked", Keep: 1}, // ago
		{Title: "refused for", Dull: human.Unknown, Keep: 2},
		{Title: "Retry-After", Dull: human.Unknown}, // in
		{Title: "held for", Dull: human.Unknown},    // in
	}
	for i := range known {
		m := &known[i]
		t.Row(
			m.Domain, human.OrUnknown(m.Rate > 0, fmt.Sprintf("%.2f", m.Rate)), human.Seconds(now.Sub(m.LastUsed).Seconds())+" ago",
			human.OrUnknown(m.Pause > 0, human.Seconds(m.Pause.Seconds())), left(m.RetryUntil, now), left(m.HeldUntil, now),
		)
	}
	return t
}

// left is how long it is until t, which may have passed: a trial is due then.
func left(t, now time.Time) string {
	return human.OrUnknown(!t.IsZero(), human.Seconds(t.Sub(now).Seconds()))
}
