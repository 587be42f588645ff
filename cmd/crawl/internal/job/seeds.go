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

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/assembly"
)

const (
	maxSeedLine   = 64 << 10 // bytes; a file with longer lines is no list of seeds
	maxLeftOut    = 10       // how many lines that are no URL are logged one by one
	byteOrderMark = '\ufeff'
)

// seedFile is a file of seeds, or standard input, which is never closed because a read of it may be under way.
type seedFile struct {
	name string // for messages
	r    io.Reader
}

// seedSource reads the seeds of files, one file after another, for a crawl.
type seedSource struct {
	files     []seedFile // empty means no seeds but those of the arguments
	log       *slog.Logger
	resumable bool // the crawl keeps a state
	stopped   chan struct{}
	stop      func() // ends the reading, which may wait for a person to type

	// Read after the crawl: lines with a seed, lines left out, and why the reading ended early.
	good, bad int
	failed    error
}

func newSeedSource(log *slog.Logger, files ...seedFile) *seedSource {
	s := &seedSource{files: files, log: log, stopped: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.stopped) })
	return s
}

func openSeeds(paths []string, stdin io.Reader, log *slog.Logger) (*seedSource, error) {
	s := newSeedSource(log)
	for _, path := range paths {
		one := seedFile{"standard input", stdin}
		if path != "-" {
			f, err := openList(path)
			if err != nil {
				return nil, errors.Join(cli.IOf("open --input-file: %w", err), s.close())
			}
			one = seedFile{path, f}
		} else if cli.IsTerminal(stdin) {
			log.Info("reading seeds from the keyboard, a URL per line; Ctrl-D ends the list")
		}
		s.files = append(s.files, one)
	}
	return s, nil
}

// openList opens a file of seeds. If the beginning of the file shows that it is of another kind, the error says which.
func openList(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: give a file with one URL per line", path)
	} else if err == nil && info.Mode().IsRegular() { // looking into a pipe would wait for it
		if kind := cli.FileKind(path); kind != "" && kind != cli.SeedsKind {
			return nil, fmt.Errorf("%s: %s: give a text with one URL per line", path, kind)
		}
	}
	return os.Open(path)
}

// FirstSeeds returns the first URLs of the files of --input-file, at most most of them. It skips lines that hold none.
// The path - is standard input, read from stdin.
func FirstSeeds(paths []string, stdin io.Reader, most int) (seeds []string, err error) {
	s, err := openSeeds(paths, stdin, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	for line := range s.read {
		if s.check(&line) {
			seeds = append(seeds, line.text)
		}
		if len(seeds) == most {
			break
		}
	}
	if s.failed != nil {
		err = cli.IO(s.failed)
	}
	return seeds, errors.Join(err, s.close())
}

func (s *seedSource) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, one := range s.files {
		if f, ok := one.r.(*os.File); ok && one.name != "standard input" {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// name returns the names of all files, for messages.
func (s *seedSource) name() string {
	var names []string
	for _, one := range s.files {
		names = append(names, one.name)
	}
	return strings.Join(names, ", ")
}

// crawl runs c on seeds, those of the arguments, and then on those of the files.
func (s *seedSource) crawl(ctx context.Context, c *assembly.Crawler, seeds []string) error {
	if s.files == nil {
		return c.Run(ctx, seeds...)
	}
	cut := func() {}
	if s.resumable {
		cut = c.Stop // a resume can read the file again
	}
	return c.RunSeq(ctx, s.fromFile(ctx, c.Halted(), cut), seeds...)
}

// fromFile returns the lines of the files that hold a seed. A line that is no URL is logged and left out. If a file
// cannot be read to its end, the iteration calls cut.
func (s *seedSource) fromFile(ctx context.Context, halted <-chan struct{}, cut func()) iter.Seq[string] {
	return func(yield func(string) bool) {
		defer s.stop()
		lines := make(chan seedLine)
		// A read of a terminal or a pipe cannot be interrupted, so it has a goroutine of its own. If the crawl is
		// stopped during a read, that goroutine ends with the process.
		go func() {
			defer close(lines)
			for line := range s.read {
				select {
				case lines <- line:
				case <-s.stopped:
					return
				}
			}
		}()
		for {
			select {
			case line, ok := <-lines:
				switch {
				case ok && s.check(&line) && !yield(line.text):
					return
				case ok:
					continue
				case s.failed != nil:
					cut()
				}
				if s.bad > maxLeftOut {
					s.log.Warn("more seeds were left out", slog.String("file", s.name()), slog.Int("all", s.bad), slog.Int("used", s.good))
				}
				return
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

// check reports whether a line holds a seed. It logs a line that should hold one, and keeps an error of reading in
// failed.
func (s *seedSource) check(line *seedLine) bool {
	if line.number == 0 {
		s.failed = fmt.Errorf("read %s: %w", line.file, cli.Cause(line.err))
		return false
	}
	err := line.err
	if err == nil {
		err = assembly.Check(line.text)
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

// seedLine is a line of a file that is neither empty nor a comment.
type seedLine struct {
	file   string
	number int // from 1; zero means the end of a file by the error err
	text   string
	err    error // why the line is no seed, or why reading failed
}

var errLongSeed = errors.New("the line is longer than 64 KiB")

// read yields the lines that may hold a seed, and a last line with number zero if a file cannot be read to its end.
func (s *seedSource) read(yield func(seedLine) bool) {
	for _, one := range s.files {
		r := bufio.NewReaderSize(one.r, maxSeedLine)
		for n := 1; ; n++ {
			text, err := r.ReadSlice('\n')
			line := seedLine{file: one.name, number: n}
			for errors.Is(err, bufio.ErrBufferFull) {
				line.err = errLongSeed
				_, err = r.ReadSlice('\n')
			}
			if line.err == nil {
				line.text = seedText(text)
			}
			if (line.text != "" || line.err != nil) && !yield(line) {
				return
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				yield(seedLine{file: one.name, err: err})
				return
			}
		}
	}
}

// seedText returns the text of a line without space around it; "" if the line is empty or begins with #. In files that
// were joined, any line may begin with a byte order mark, which is removed too.
func seedText(line []byte) string {
	text := strings.TrimFunc(string(line), func(r rune) bool { return unicode.IsSpace(r) || r == byteOrderMark })
	if strings.HasPrefix(text, "#") {
		return ""
	}
	return text
}
