// Command crawl is Treadlight on the command line: a crawler that learns how fast each
// host may be asked. `crawl --help` has the flags, `crawl demo` shows it at work
// without a network.
//
// # Where what goes
//
// Records go to standard output or a file, and snapshots of --stats likewise; never
// both to the same place. Events (output.events) go to a file or to standard error, and may
// get lost where the others may not: they are no result. Everything for people goes to standard error, through one
// [terminal], which keeps log lines, reports and the status line from tearing each
// other and takes control characters out of what strangers wrote. With log.format
// json all of it is log lines, for machines.
//
// # How a run goes
//
// [run] parses the command line with cobra; flags only note what was typed, and package
// config makes one checked tree of file, environment and flags. A crawl is a [job]: it
// opens what is read before what is written, lets the crawl run between companions
// (signals, progress, snapshots, events; see supervise), closes, reports, and turns the end
// into an exit code. Companions have ended when the job returns; the one goroutine that
// may outlive it waits in a read of standard input, which nothing can interrupt.
//
// A crawl whose output is a directory, or that has --state, is kept: keep.go says where,
// and `crawl resume` goes on with it. The state is opened before the records, and whoever
// has it is alone with both.
//
// # What is held stable
//
// Scripts may rely on the exit codes (exit.go), the names of flags and variables, the
// records and the stats file. Reports and messages are for people and may change; the
// sessions in testdata/script show them as they are.
//
// There is no logic of crawling here: what the command can do, a program that imports
// the module can do too.
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
