//go:build !unix

package job

import "syscall"

// tellSignal asks a crawl how it goes. Where there is no such signal it is one that never comes: --stats, --listen
// and the status line tell there.
const tellSignal = syscall.Signal(-1)
