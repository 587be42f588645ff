package main

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
)

const (
	// maxSeedLine bounds a line of a seed file. Servers refuse URLs far shorter; a
	// longer line is a file that is no list of seeds.
	maxSeedLine = 64 << 10
	// maxLeftOut is how many lines that are no URL are told one by one.
	maxLeftOut = 10
)

// seedSource feeds a crawl the seeds of a file or of standard input.
type seedSource struct {
	name string        // for messages; empty = there is no file
	r    io.Reader     // nil without a file
	file *os.File      // what to close, if anything
	more []*seedSource // read before this one
	log  *slog.Logger

	resumable bool // the crawl is kept

	stopped chan struct{}
	once    sync.Once

	// For after the crawl: lines with a seed, lines left out, and why reading ended early.
	good, bad int
	failed    error
}

// openSeeds opens the file of --input-file, if there is one, and those that were given before.
func openSeeds(path string, stdin io.Reader, log *slog.Logger, before ...string) (*seedSource, error) {
	s := &seedSource{name: path, log: log, stopped: make(chan struct{})}
	for _, p := range before {
		one, err := openSeeds(p, stdin, log)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.more = append(s.more, one)
	}
	switch path {
	case "":
	case "-":
		s.name, s.r = "standard input", stdin
		if isTerminal(stdin) {
			log.Info("reading seeds from the keyboard, a URL per line; Ctrl-D ends the list")
		}
	default:
		f, err := os.Open(path)
		if err != nil {
			return nil, ioError(fmt.Errorf("open --input-file: %w", err))
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close()
			return nil, ioError(fmt.Errorf("open --input-file: %s is a directory: give a file with one URL per line", path))
		}
		s.r, s.file = f, f
	}
	return s, nil
}

// close closes the file. Standard input stays open: a read of it may be under way.
func (s *seedSource) close() error {
	var errs []error
	for _, one := range s.more {
		errs = append(errs, one.close())
	}
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// stop ends the reading of seeds, which may be waiting for a person to type.
func (s *seedSource) stop() { s.once.Do(func() { close(s.stopped) }) }

// crawl runs c on the seeds of the arguments and then those of the file.
func (s *seedSource) crawl(ctx context.Context, c *crawl.Crawler, seeds []string) error {
	if s.r == nil {
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
		s.failed, s.name = line.failed, line.file
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
		s.log.Warn("more seeds were left out", slog.String("file", s.name), slog.Int("all", s.bad), slog.Int("used", s.good))
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
	for _, one := range s.more {
		if !s.readFile(one, lines) {
			return
		}
	}
	s.readFile(s, lines)
}

// readFile sends the lines of one file, and reports whether it was read to its end.
func (s *seedSource) readFile(one *seedSource, lines chan<- seedLine) bool {
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
