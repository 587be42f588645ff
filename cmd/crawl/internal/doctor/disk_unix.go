//go:build unix

package doctor

import "golang.org/x/sys/unix"

// freeBytes returns how many bytes this user may write where dir is.
func freeBytes(dir string) (free int64, known bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(uint64(s.Bavail) * uint64(s.Bsize)), true //nolint:gosec,unconvert // the types differ by system
}
