//go:build unix && !linux

package render

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}
