package sqlitedb

import "fmt"

// InUseError says that another process has a lock.
type InUseError struct {
	Path string // of the lock
	PID  int    // of the process; zero if it is not known
}

// Error names the process.
func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: another process has this lock: wait for its end", e.Path)
	}
	return fmt.Sprintf("%s: process %d has this lock: wait for its end, or end it", e.Path, e.PID)
}
