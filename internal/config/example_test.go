package config_test

import (
	"flag"
	"fmt"
	"strings"

	"github.com/treadlight/crawl/internal/config"
)

// A program declares every flag in one loop, keeps what was given as text, and lets
// Load speak about all of it.
func ExampleFlags() {
	set := flag.NewFlagSet("crawl", flag.ContinueOnError)
	var given []config.FlagValue
	for _, f := range config.Flags() {
		keep := func(value string) error {
			given = append(given, config.FlagValue{Name: f.Name, Value: value})
			return nil
		}
		if f.Switch {
			set.BoolFunc(f.Name, f.Help, keep)
			continue
		}
		set.Func(f.Name, f.Help, keep)
	}
	_ = set.Parse([]string{"--rate", "20", "--no-robots", "--timeout", "30"})

	_, err := config.Load(config.Sources{Flags: given})
	fmt.Println(err)
	// Output:
	// fetch.timeout: 30 has no unit; write "30s" for seconds [flag --timeout]
}

func ExampleLoad() {
	l, err := config.Load(config.Sources{
		File:   "crawl.yaml",
		Reader: strings.NewReader("ratelimit:\n  max_rps: 0.5\n"),
		Env:    []string{"CRAWL_DEPTH=3"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"depth", "ratelimit.max_rps", "ratelimit.initial_rps"} {
		fmt.Printf("%s: %s\n", path, l.Origins[path])
	}
	fmt.Println(l.Config.Depth, l.Config.RateLimit.InitialRPS)
	// Output:
	// depth: env CRAWL_DEPTH
	// ratelimit.max_rps: file crawl.yaml:2
	// ratelimit.initial_rps: follows ratelimit.max_rps
	// 3 0.5
}
