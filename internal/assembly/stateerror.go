package assembly

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// errFile is that there is no directory, but a file.
var errFile = fmt.Errorf("%w: it is a file", disk.ErrMissing)

// errDone is that there is a crawl that resume has nothing to do for.
var errDone = fmt.Errorf("%w, and is done", disk.ErrExists)

// StateError is trouble with the state of a crawl. What was committed before is kept.
type StateError struct {
	Dir string // of the state
	Err error  // says what is wrong, and mostly what to do
}

// Error names the directory and the trouble.
func (e *StateError) Error() string {
	switch {
	case errors.Is(e.Err, errFile):
		return e.Dir + " is a file: name the directory that --state or --output was given"
	case errors.Is(e.Err, errDone):
		return fmt.Sprintf("%s holds a crawl that is done: see what has changed since by 'crawl again %s', name another directory, or crawl anew with --overwrite", e.Dir, e.word())
	case errors.Is(e.Err, ErrUnfinished):
		return fmt.Sprintf("%s holds a crawl that was interrupted: go on with it by 'crawl resume %s', or begin a round all the same with --unfinished", e.Dir, e.word())
	case errors.Is(e.Err, disk.ErrExists):
		return fmt.Sprintf("%s holds a crawl: go on with it by 'crawl resume %s', name another directory, or begin anew with --overwrite", e.Dir, e.word())
	case errors.Is(e.Err, disk.ErrMissing):
		return e.Dir + " holds no crawl: name the directory that --state or --output was given"
	}
	if other, ok := errors.AsType[*sqlitedb.InUseError](e.Err); ok {
		who := "another process"
		if other.PID > 0 {
			who = fmt.Sprintf("process %d", other.PID)
		}
		return fmt.Sprintf("%s has the crawl in %s under way: wait for its end, or end it", who, e.Dir)
	}
	return fmt.Sprintf("the state of the crawl in %s: %v", e.Dir, e.Err)
}

// word is the directory as an argument of a shell.
func (e *StateError) word() string {
	if strings.ContainsAny(e.Dir, " '\"$&;()*?!`\\|<>#~") { // it would take it for something else
		return strconv.Quote(e.Dir)
	}
	return e.Dir
}

// Unwrap is the trouble.
func (e *StateError) Unwrap() error { return e.Err }

// Is reports whether it is that there is a state, or that there is none.
func (e *StateError) Is(target error) bool {
	return target == fs.ErrExist && errors.Is(e.Err, disk.ErrExists) ||
		target == fs.ErrNotExist && errors.Is(e.Err, disk.ErrMissing)
}

func stateError(dir string, err error) error {
	if err == nil {
		return nil
	}
	return &StateError{dir, err}
}
