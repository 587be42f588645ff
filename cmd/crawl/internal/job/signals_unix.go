//go:build unix

package job

import "syscall"

// tellSignal requests a report of how the crawl goes.
const tellSignal = syscall.SIGUSR1
