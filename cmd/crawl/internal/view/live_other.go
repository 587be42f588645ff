//go:build !unix

package view

import (
	"context"
	"os"
)

// Without job control the process always has the terminal, and nothing suspends it.

func viewSignals() []os.Signal { return []os.Signal{os.Kill} } // a signal that is never received

func foreground(*os.File) bool { return true }

func suspend(context.Context) {}
