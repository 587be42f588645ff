// Command crawl is Treadlight on the command line: a crawler that learns how fast each host may be
// asked. `crawl --help` has the flags, `crawl demo` shows it at work without a network.
//
// # Files
//
// Each command has a file here with its flags and texts; what is more than that is in a package of
// internal, named after the command. All of them use:
//
//   - job: one crawl from the command line, for crawl, resume, again and demo
//   - flags, help: the flags of the settings, the help and the manual pages
//   - exit: the exit codes, and the errors that carry them
//   - terminal, human: standard error for people, and numbers and tables in words
//
// # Output
//
// Records go to standard output or a file, and snapshots of --stats likewise; never both to the
// same place. Events (output.events) go to a file or to standard error, and some may be dropped.
// Everything for people goes to standard error, through one [terminal.Terminal], which keeps log
// lines, reports and the status line apart and removes control characters from foreign text. With
// log.format json all of it is log lines, for machines.
//
// # What is held stable
//
// Scripts may rely on the exit codes (internal/exit), the names of flags and variables, the records
// and the stats file. Reports and messages are for people and may change; the sessions in
// testdata/script show them as they are.
//
// There is no logic of crawling here: what the command can do, a program that imports the module
// can do too.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
)

func main() {
	// Package net/http remarks there on servers that send more than they announced, and
	// has no other place for it; the records say what became of the pages.
	log.SetOutput(io.Discard)
	giveRoom(os.LookupEnv)
	os.Exit(run(context.Background(), os.Args[1:], terminal.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}))
}
