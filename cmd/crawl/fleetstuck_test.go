//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
)

// unfinished returns what the store has of partitions with URLs left: their sessions and hosts, with the milliseconds
// left of each.
func (f *fleetTest) unfinished() string {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{f.redis.Addr}, DisableCache: true})
	if err != nil {
		return err.Error() + "\n"
	}
	defer c.Close()
	do := func(args ...string) []string {
		list, err := c.Do(f.t.Context(), c.B().Arbitrary(args[0]).Keys(args[1]).Args(args[2:]...).Build()).AsStrSlice()
		if err != nil && !rueidis.IsRedisNil(err) {
			list = []string{err.Error()}
		}
		return list
	}
	var b strings.Builder
	for p := range 64 {
		root := fmt.Sprintf("crawl:{e2e/%d}:", p)
		tally := do("HMGET", root+"n", "added", "done")
		if len(tally) == 2 && tally[0] == tally[1] {
			continue
		}
		left := "local t, l = redis.call('TIME'), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') " +
			"for i = 2, #l, 2 do l[i] = tostring(math.floor(l[i] - t[1] * 1000 - t[2] / 1000)) end return l"
		timed := func(key string) []string {
			list, err := c.Do(f.t.Context(), c.B().Eval().Script(left).Numkeys(1).Key(root+key).Build()).AsStrSlice()
			if err != nil {
				list = []string{err.Error()}
			}
			return list
		}
		sessions := timed("w")
		fmt.Fprintf(&b, "partition %d: added and done %v, ready %v, sessions %v", p, tally, timed("ready"), sessions)
		for i := 0; i < len(sessions); i += 2 {
			for _, host := range do("HKEYS", root+"o:"+sessions[i]) {
				fmt.Fprintf(&b, "; %s has %s, handed out %v", sessions[i], host, do("HKEYS", root+"x:"+host))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// dumps ends the processes that still run and keeps their output in files. It returns what those of their goroutines
// are doing that concern a fleet.
func (f *fleetTest) dumps() string {
	dir, err := os.MkdirTemp("", "fleet-stuck-")
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, p := range f.procs {
		if p.ended() {
			fmt.Fprintf(&b, "%s has ended with %d\n", p.agent, p.cmd.ProcessState.ExitCode())
			continue
		}
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.done
		path := filepath.Join(dir, strings.ReplaceAll(p.agent, "/", "-"))
		if err := os.WriteFile(path, []byte(p.err.String()), 0o600); err != nil {
			path = err.Error()
		}
		fmt.Fprintf(&b, "%s (all in %s):\n%s", p.agent, path, goroutines(p.err.String()))
	}
	return b.String()
}

// frame matches a function in a dump, and goroutine the first line of one.
var (
	frame     = regexp.MustCompile(`(?m)^github\.com/(?:treadlight/crawl/internal|redis)/(\S+)\(`)
	goroutine = regexp.MustCompile(`^goroutine .*?\[(.*)\]:`)
)

// goroutines returns the goroutines of a dump that have functions of the fleet, one per line, the innermost function
// first.
func goroutines(dump string) string {
	var lines []string
	for part := range strings.SplitSeq(dump, "\n\n") {
		head, ours := goroutine.FindStringSubmatch(part), frame.FindAllStringSubmatch(part, 6)
		if head == nil || len(ours) == 0 {
			continue
		}
		line := "  " + head[1] + ":"
		for _, m := range ours {
			line += " " + m[1]
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	var b strings.Builder
	for len(lines) > 0 {
		n := 1
		for n < len(lines) && lines[n] == lines[0] {
			n++
		}
		fmt.Fprintf(&b, "%4d%s", n, lines[0])
		lines = lines[n:]
	}
	return b.String()
}
