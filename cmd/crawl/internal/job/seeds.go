package job

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync"
	"unicode"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/exit"
	"github.com/treadlight/crawl/cmd/crawl/internal/filekind"
	"github.com/treadlight/crawl/cmd/crawl/internal/terminal"
	"github.com/treadlight/crawl/internal/records/sink"
)

const (
	// maxSeedLine bounds a line of a seed file. Servers refuse URLs far shorter; a
	// longer line is a file that is no list of seeds.
	maxSeedLine = 64 << 10
	// maxLeftOut is how many lines that are no URL are told one by one.
	maxLeftOut = 10
)

// seedFile is a file of seeds, or standard input.
type seedFile struct {
	name string // for messages
	r    io.Reader
	file *os.File // what to close, if anything
}

// seedSource feeds a crawl the seeds of files, one after another.
type seedSource struct {
	files []seedFile // none = there are no seeds but those of the arguments
	log   *slog.Logger

	resumable bool // the crawl is kept

	stopped chan struct{}
	once    sync.Once

	// For after the crawl: lines with a seed, lines left out, and why reading ended early.
	good, bad int
	failed    error
}

// openSeeds opens the files of --input-file.
func openSeeds(paths []string, stdin io.Reader, log *slog.Logger) (*seedSource, error) {
	s := &seedSource{log: log, stopped: make(chan struct{})}
	for _, path := range paths {
		one := seedFile{name: "standard input", r: stdin}
		if path != "-" {
			f, err := openList(path)
			if err != nil {
				return nil, errors.Join(exit.IO(fmt.Errorf("open --input-file: %w", err)), s.close())
			}
			one = seedFile{name: path, r: f, file: f}
		} else if terminal.IsTerminal(stdin) {
			log.Info("reading seeds from the keyboard, a URL per line; Ctrl-D ends the list")
		}
		s.files = append(s.files, one)
	}
	return s, nil
}

// openList opens a file of seeds. What shows at its beginning that it is another file is told
// as what it is.
func openList(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a directory: give a file with one URL per line", path)
	case info.Mode().IsRegular(): // to look into a pipe is to wait for it
		urls := sink.URLs.Spec()
		if kind := filekind.Of(path); kind != "" && kind != urls.Kind {
			err = fmt.Errorf("%s: %s: give a text with one URL per line", path, kind)
		}
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return f, nil
}

// close closes the files. Standard input stays open: a read of it may be under way.
func (s *seedSource) close() error {
	var errs []error
	for _, one := range s.files {
		if one.file != nil {
			errs = append(errs, one.file.Close())
		}
	}
	return errors.Join(errs...)
}

// name is what the files are called together.
func (s *seedSource) name() string {
	var names []string
	for _, one := range s.files {
		names = append(names, one.name)
	}
	return strings.Join(names, ", ")
}

// stop ends the reading of seeds, which may be waiting for a person to type.
func (s *seedSource) stop() { s.once.Do(func() { close(s.stopped) }) }

// crawl runs c on the seeds of the arguments and then those of the file.
func (s *seedSource) crawl(ctx context.Context, c *crawl.Crawler, seeds []string) error {
	if s.files == nil {
		return c.Run(ctx, seeds...)
	}
	cut := func() {}
	if s.resumable {
		cut = c.Stop // it can go on when the file can
	}
	return c.RunSeq(ctx, s.fromFile(ctx, c.Halted(), cut), seeds...)
}

// fromFile is the lines of the file that hold a seed. A line that is no URL is told and
// left out: it must not cost the others. If the file cannot be read to its end it calls cut.
func (s *seedSource) fromFile(ctx context.Context, halted <-chan struct{}, cut func()) iter.Seq[string] {
	return func(yield func(string) bool) {
		defer s.stop()
		lines := make(chan seedLine)
		// A read of a terminal or a pipe cannot be interrupted, so it happens beside:
		// when the crawl is stopped first, the goroutine ends with the process.
		go s.read(lines)
		for {
			select {
			case line, ok := <-lines:
				if !ok {
					if s.failed != nil {
						cut()
					}
					s.summarize()
					return
				}
				if s.check(&line) && !yield(line.text) {
					return
				}
			case <-s.stopped:
				return
			case <-halted:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// check reports whether a line holds a seed, and tells if it should have.
func (s *seedSource) check(line *seedLine) bool {
	if line.failed != nil {
		s.failed = fmt.Errorf("read %s: %w", line.file, exit.Cause(line.failed))
		return false
	}
	err := line.err
	if err == nil {
		err = crawl.Check(line.text)
	}
	if err == nil {
		s.good++
		return true
	}
	if s.bad++; s.bad <= maxLeftOut {
		s.log.Warn("a seed is left out", slog.String("at", fmt.Sprintf("%s:%d", line.file, line.number)), slog.Any("error", err))
	}
	return false
}

// summarize tells the number of lines left out when not each of them was told.
func (s *seedSource) summarize() {
	if s.bad > maxLeftOut {
		s.log.Warn("more seeds were left out", slog.String("file", s.name()), slog.Int("all", s.bad), slog.Int("used", s.good))
	}
}

// seedLine is a line that is not empty and no comment, or the end of reading.
type seedLine struct {
	file   string
	number int // from 1
	text   string
	err    error // why the line is no seed
	failed error // why there are no more lines
}

var (
	errLongSeed   = errors.New("the line is longer than 64 KiB")
	errMarkedSeed = errors.New("a byte order mark within the line: begin a new line there, as two files seem to have been put together")
)

// read sends the lines that may hold a seed, and closes the channel after the last.
func (s *seedSource) read(lines chan<- seedLine) {
	defer close(lines)
	for i := range s.files {
		if !s.readFile(&s.files[i], lines) {
			return
		}
	}
}

// readFile sends the lines of one file, and reports whether it was read to its end.
func (s *seedSource) readFile(one *seedFile, lines chan<- seedLine) bool {
	r := bufio.NewReaderSize(one.r, maxSeedLine)
	for n := 1; ; n++ {
		text, err := r.ReadSlice('\n')
		line := seedLine{file: one.name, number: n}
		for errors.Is(err, bufio.ErrBufferFull) {
			line.err = errLongSeed
			_, err = r.ReadSlice('\n')
		}
		if line.err == nil {
			line.text, line.err = seedText(text)
		}
		if (line.text != "" || line.err != nil) && !s.send(lines, line) {
			return false
		}
		if err != nil {
			if err != io.EOF {
				s.send(lines, seedLine{file: one.name, failed: err})
			}
			return err == io.EOF
		}
	}
}

// send hands a line over, or reports false when nobody wants more.
func (s *seedSource) send(lines chan<- seedLine, line seedLine) bool {
	select {
	case lines <- line:
		return true
	case <-s.stopped:
		return false
	}
}

const byteOrderMark = '\ufeff'

// seedText is what a line says: nothing if it is empty or begins with #. Editors of
// other systems put a byte order mark in front of the first line and a carriage return
// behind each. Of files that were put together the mark may be in front of any line; one
// within a line says that a file before ended without a line break, and two URLs are one.
func seedText(line []byte) (string, error) {
	text := strings.TrimFunc(string(line), func(r rune) bool { return unicode.IsSpace(r) || r == byteOrderMark })
	switch {
	case strings.ContainsRune(text, byteOrderMark):
		return "", errMarkedSeed
	case strings.HasPrefix(text, "#"):
		return "", nil
	}
	return text, nil
}
