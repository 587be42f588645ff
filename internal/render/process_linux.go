package render

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// memory returns the unshared memory of the processes of a group, in bytes.
func memory(group int) (sum int64) {
	page := int64(os.Getpagesize())
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // fails only for an invalid pattern
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// After the name, which may contain anything: state, parent, group.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) < 3 || string(f[2]) != strconv.Itoa(group) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "statm"))
		if m := bytes.Fields(text); err == nil && len(m) > 2 {
			resident, _ := strconv.ParseInt(string(m[1]), 10, 64)
			shared, _ := strconv.ParseInt(string(m[2]), 10, 64)
			sum += (resident - shared) * page
		}
	}
	return sum
}
