//go:build unix

package main

import "syscall"

// tellSignal asks a crawl how it goes.
const tellSignal = syscall.SIGUSR1
