//go:build !unix

package view

import (
	"context"
	"os"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// Where there are no jobs every terminal is ours, and nothing is suspended.

func viewSignals() []os.Signal { return []os.Signal{os.Kill} } // which never comes

func foreground(*os.File) bool { return true }

func suspend(context.Context) {}

func raiseQuit() { os.Exit(cli.CodeInternal) }
