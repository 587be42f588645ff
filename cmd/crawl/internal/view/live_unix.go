//go:build unix

package view

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// viewSignals returns the signals at which the live view gives the terminal back. SIGTSTP is not among them, because a
// Go program that has ever caught it no longer stops at it. A process that someone else has stopped draws the screen
// again when it continues.
func viewSignals() []os.Signal { return []os.Signal{syscall.SIGCONT} }

// foreground reports whether this process may draw on the terminal and read from it. The system stops a job in the
// background that does so. On a terminal without job control the result is true.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// suspend stops the process as the terminal does on Ctrl-Z, until a shell continues it. Without a shell that could do
// so, the system ignores the signal, and suspend returns after a moment.
func suspend(ctx context.Context) {
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGCONT)
	defer signal.Stop(goOn)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-goOn:
	case <-ctx.Done():
	case <-time.After(cli.StatusEvery): // this time does not pass while the process is stopped
	}
}
