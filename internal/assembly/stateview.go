package assembly

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// StateView reads the state of a crawl, which may be running in another process. It is not safe for concurrent use.
type StateView struct {
	view     disk.View
	settings Settings
	seeds    []string
}

// ViewState opens a view of the state in a directory. The error is [fs.ErrNotExist] if there is none.
func ViewState(dir string) (*StateView, error) {
	if err := isDir(dir); err != nil {
		return nil, err
	}
	d, err := disk.Look(dir)
	if err != nil {
		return nil, stateError(dir, err)
	}
	v := &StateView{view: d}
	if err := v.read(dir); err != nil {
		return nil, stateError(dir, err)
	}
	return v, nil
}

func (v *StateView) read(dir string) error {
	text, err := v.view.Meta(metaSettings)
	program, errProgram := v.view.Meta(metaProgram)
	if err = errors.Join(err, errProgram); err != nil {
		return err
	}
	if v.settings, err = loadSettings(dir, text, program); err != nil {
		return err
	}
	for it, err := range v.view.Seeds() {
		if err != nil {
			return err
		}
		v.seeds = append(v.seeds, it.URL.String())
	}
	return nil
}

// Settings returns the settings of the last run.
func (v *StateView) Settings() Settings { return v.settings }

// Seeds returns the URLs that the crawl began with, and those to which they were redirected.
func (v *StateView) Seeds() []string { return v.seeds }

// Find returns what the state has of a URL. It reads all URLs, which takes some seconds for ten million.
func (v *StateView) Find(url string) (disk.Page, error) {
	u, err := canonical.Parse(url)
	if err != nil {
		return disk.Page{}, err
	}
	return v.view.Page(u.String())
}

var (
	// errFile means that there is a file in place of the directory.
	errFile = fmt.Errorf("%w: it is a file", disk.ErrMissing)
	// errDone means that there is a crawl with nothing left to resume.
	errDone = fmt.Errorf("%w, and is done", disk.ErrExists)
	// errNotBegun means that there is a state in which no crawl was ever kept, as after a kill. A new state replaces it.
	errNotBegun = errors.New("the crawl was given up before it began: begin it again as it was")
)

func isDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return stateError(dir, errFile)
	}
	return nil
}

// StateError is an error about the state of a crawl. What was committed before is kept.
type StateError struct {
	Dir string // directory of the state
	Err error  // says what is wrong, and usually what to do
}

// stateHelp lists the messages for errors about a directory; the first entry whose error matches applies. {dir} stands
// for the directory, and {arg} for the directory as an argument in a shell.
var stateHelp = []struct {
	err  error
	text string
}{
	{errFile, "{dir} is a file, which keeps no crawl: name the directory that --state or --output was given; a crawl without one was not kept, and one begun with -o DIR/ is"},
	{errDone, "{dir} holds a crawl that is done: see what has changed since by 'crawl again {arg}', name another directory, " +
		"or crawl anew with --overwrite"},
	{ErrUnfinished, "{dir} holds a crawl that was interrupted: go on with it by 'crawl resume {arg}', " +
		"or begin a round all the same with --unfinished"},
	{disk.ErrExists, "{dir} holds a crawl: go on with it by 'crawl resume {arg}', name another directory, " +
		"or begin anew with --overwrite"},
	{disk.ErrMissing, "{dir} holds no crawl: name the directory that --state or --output was given"},
}

func (e *StateError) Error() string {
	word := e.Dir
	if strings.ContainsAny(word, " '\"$&;()*?!`\\|<>#~") { // characters that a shell would interpret
		word = strconv.Quote(word)
	}
	for _, help := range stateHelp {
		if errors.Is(e.Err, help.err) {
			return strings.NewReplacer("{dir}", e.Dir, "{arg}", word).Replace(help.text)
		}
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

func (e *StateError) Unwrap() error { return e.Err }

// Is makes a StateError match fs.ErrExist if there is a state already, and fs.ErrNotExist if there is none.
func (e *StateError) Is(target error) bool {
	switch target {
	case fs.ErrExist:
		return errors.Is(e.Err, disk.ErrExists)
	case fs.ErrNotExist: // where nothing was ever kept, whoever goes on with a crawl if there is one begins it
		return errors.Is(e.Err, disk.ErrMissing) || errors.Is(e.Err, errNotBegun)
	}
	return false
}

func stateError(dir string, err error) error {
	if err == nil {
		return nil
	}
	return &StateError{dir, err}
}
