//go:build unix

package job

import "syscall"

// tellSignal asks a crawl how it goes.
const tellSignal = syscall.SIGUSR1
