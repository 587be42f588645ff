//go:build !unix

package job

import "syscall"

// tellSignal requests a report of how the crawl goes. These systems have no such signal, so it is one that never comes;
// --stats, --listen and the status line report there.
const tellSignal = syscall.Signal(-1)
