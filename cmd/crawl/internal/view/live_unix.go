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

// viewSignals are those at which the live view gives the terminal back. SIGTSTP is not among them: a program in Go
// that has ever caught it does not stop at it any more. Who was stopped from elsewhere draws the screen anew when it
// goes on.
func viewSignals() []os.Signal { return []os.Signal{syscall.SIGCONT} }

// foreground reports whether the terminal is ours to draw on and to read from: to a job in the background the system
// would say that by stopping it. A terminal that has no jobs is.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// suspend stops the process as the terminal does on Ctrl-Z, until a shell has it go on. Where there is no shell to do
// so the system takes no notice of it, and nor do we.
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
	case <-time.After(cli.StatusEvery): // of which nothing passes while the process stands
	}
}
