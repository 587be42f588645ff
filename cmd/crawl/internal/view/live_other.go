//go:build !unix

package view

import (
	"context"
	"os"
)

// Where there are no jobs every terminal is ours, and nothing is suspended.

func viewSignals() []os.Signal { return []os.Signal{os.Kill} } // which never comes

func foreground(*os.File) bool { return true }

func suspend(context.Context) {}
