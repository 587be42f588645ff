package job

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/tree"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/record"
)

// layOut chooses the file of the records if the output is a directory, and puts the state into that directory unless
// the settings give the state another place. In a fleet each process has files named after itself and no state. The
// name of the process replaces {worker} in a path (see settleWorker); the path of a file without {worker} stays as it
// is.
func layOut(cfg *config.Config) error {
	settleWorker(cfg)
	dir := cfg.Output.Path
	info, err := os.Stat(dir)
	isDir := os.IsPathSeparator(dir[len(dir)-1]) || err == nil && info.IsDir() || cfg.Output.Format == string(sink.WARC) && !cfg.Output.OneArchive() || cfg.Output.Format == string(sink.Markdown)
	if dir == sink.Stdout || !isDir {
		return nil
	}
	name, archive := "records", "archive"
	shared := cfg.Fleet.Shared()
	if shared {
		name, archive = "records-"+cfg.Fleet.Worker, cfg.Fleet.Worker
	}
	spec := sink.Format(cfg.Output.Format).Spec()
	if cfg.Output.Path = filepath.Join(dir, name+spec.Ending()); spec.Format == sink.WARC {
		cfg.Output.Path = filepath.Join(dir, archive)
	} else if spec.Format == sink.Markdown {
		cfg.Output.Path = filepath.Join(dir, strings.Replace(name, "records", "chunks", 1)+".jsonl")
	}
	if !shared || spec.Format != sink.WARC {
		if err := os.MkdirAll(dir, 0o777); err != nil { // the umask of the user takes bits away
			return cli.Open("--output", err)
		}
	}
	if shared {
		return nil
	}
	cfg.State.Dir = cmp.Or(cfg.State.Dir, filepath.Clean(dir))
	if err := cfg.Validate(); err != nil { // the chosen files may collide with others of the settings
		return cli.Usage(err)
	}
	return nil
}

// settleWorker chooses the name of this process in a fleet, unless the settings have one, and puts it in place of
// {worker} in the names of files.
func settleWorker(cfg *config.Config) {
	if !cfg.Fleet.Shared() {
		return
	}
	if cfg.Fleet.Worker == "" {
		name, err := os.Hostname()
		if err != nil {
			name = "unknown"
		}
		name = regexp.MustCompile("[^a-zA-Z0-9.-]").ReplaceAllString(name, "-")
		cfg.Fleet.Worker = fmt.Sprintf("%.50s-%d", name, os.Getpid())
	}
	// Archives of two processes in one directory would look like one series of files.
	if cfg.WARC.Dir != "" && !config.HasWorker(cfg.WARC.Dir) && filepath.Base(cfg.WARC.Dir) != cfg.Fleet.Worker {
		cfg.WARC.Dir = filepath.Join(cfg.WARC.Dir, cfg.Fleet.Worker)
	}
	for _, path := range []*string{&cfg.Output.Path, &cfg.Output.Events, &cfg.Output.Skipped, &cfg.Stats.Path, &cfg.WARC.Dir, &cfg.RateLimit.Remember} {
		*path = config.OfWorker(*path, cfg.Fleet.Worker)
	}
}

// openState creates the state of a crawl that is to be kept, unless GoOnIn has opened one to resume. It says if none is
// kept, and warns if the records go where nothing can be truncated after a crash.
func (j *Job) openState() (err error) {
	if j.state == nil && j.Settings.State.Dir != "" {
		j.state, err = assembly.NewState(assembly.StateConfig{
			Dir: j.Settings.State.Dir, Overwrite: j.Settings.Output.Overwrite, Version: cli.Version(), Log: j.log,
		})
	}
	path := j.Settings.Output.Path
	if s := j.Settings; err == nil && j.state == nil && !j.Fleeting && !s.Fleet.Shared() && path != sink.Stdout && path != os.DevNull &&
		s.MaxPages == 0 && s.MaxTime == 0 && s.Depth != 0 { // others are short
		j.log.Info("no state is kept: this crawl cannot be resumed; with --state DIR, or -o DIR/, it can")
	}
	if j.state == nil || j.Settings.Output.Format == string(sink.WARC) {
		return err
	}
	if info, errStat := os.Stat(path); path == sink.Stdout {
		j.log.Warn("the records go to standard output and cannot be taken back: after a crash some of them may come twice; " +
			"give --output with a file or a directory")
	} else if path != os.DevNull && errStat == nil && !info.Mode().IsRegular() {
		j.log.Warn("the records go to a pipe or a device and cannot be taken back: after a crash some of them may come twice; "+
			"give --output with a file or a directory", slog.String("output", path))
	}
	return err
}

// GoOnIn opens the state in dir with open and runs the crawl on with its saved settings, over which settings take
// precedence. If nothing is left to do, it only completes the archives.
func (j *Job) GoOnIn(ctx context.Context, settings *flags.Settings, dir string, open func(assembly.StateConfig) (*assembly.State, error)) error {
	// Flags are checked before any file is touched. The settings of the log are needed at once, before those of the
	// first run can be read from the state.
	given, err := flags.Load(config.Sources{File: settings.File, Flags: settings.Given})
	if err != nil {
		return err
	}
	j.Settings, j.dir = &given.Config, dir
	j.openLog()
	j.begin()
	defer j.started()
	end := func(err error) error { // for the returns before the crawl runs
		if e := j.abandon(); err == nil {
			err = e
		}
		return j.told(err)
	}
	j.log.Debug("opening the state", slog.String("state", dir))
	if j.state, err = open(assembly.StateConfig{Dir: dir, Version: cli.Version(), Log: j.log}); err != nil {
		return end(err)
	}
	if j.state.Embedded() {
		return end(cli.Usagef("%s is the state of a program that uses the package crawl: its sinks and handlers are that program's, which goes on with it by crawl.OpenState", dir))
	}
	saved := j.state.Config().Settings
	if j.Again {
		saved.Output.Path = RoundPath(saved.Output.Path, j.state.Round())
	}
	load := func() (*config.Loaded, error) {
		return flags.Load(config.Sources{Saved: &saved, SavedIn: dir, File: settings.File, Flags: settings.Given})
	}
	loaded, err := load()
	if err != nil {
		return end(err)
	}
	j.Reread = flags.Again(settings.File, load)
	j.Settings, j.Warnings = &loaded.Config, loaded.Warnings
	j.bound(j.Settings.MaxTime)
	source := loaded.Origins["seeds.file"].Source
	j.moreSeeds = source == "flag" || source == "file"
	j.keptListen = loaded.Origins["listen.addr"].Source == "state"
	if queued, pages := j.state.Left(); j.state.Done() && !j.moreSeeds {
		left := []any{slog.String("state", dir), slog.Int64("pages", pages), slog.Int64("queued", queued)}
		if j.state.Obtained() {
			j.log.Info("the crawl is complete: nothing is left to do", left...)
		} else {
			j.log.Info("the crawl is complete and obtained nothing: 'crawl again' asks for its pages once more", left...)
		}
		err := j.settle()
		// A later round without a record is one in which no URL was due, see ended.
		wrote := j.state.Position(recordsName(j.state, j.Settings.Output.Path)).Records > 0
		if (pages > 0 || wrote) && !j.state.Obtained() {
			err = errors.Join(err, cli.ErrNothing)
		}
		return end(err)
	}
	if err := j.checkPlaces(); err != nil {
		return end(err)
	}
	return j.Run(ctx)
}

// settle completes the archives of a crawl that is done: the process may have been killed between the end of the crawl
// and that of its archives.
func (j *Job) settle() error {
	if j.archiveDir() == "" {
		return nil
	}
	w, err := j.openArchive(j.archiveDir())
	return errors.Join(err, w.Close())
}

// checkPlaces returns an error if a file with records is where those of a new round are to go, if a directory has taken
// the place of the file of a resumed crawl, or if a list of seeds that was not read to its end is gone.
func (j *Job) checkPlaces() error {
	o, path := &j.Settings.Output, j.Settings.Output.Path
	info, err := os.Stat(path)
	there := path != sink.Stdout && err == nil
	switch {
	case j.Again && there && info.Mode().IsRegular() && info.Size() > 0:
		return cli.IOf("open --output: %s is there already, and round %d has its records there: move it away", path, j.state.Round())
	case there && info.IsDir() && (o.Format != string(sink.WARC) || o.OneArchive()):
		return cli.IOf("open --output: %s is a directory, but the crawl to resume has its records in a file there: put the file back", path)
	case j.moreSeeds || j.state.Seeded():
		return nil
	}
	for _, file := range j.Settings.Seeds.Files {
		if _, err := os.Stat(file); err != nil && file != sink.Stdout {
			return cli.IOf("the list of seeds was not read to its end: %w: put it back, or leave the rest of it out with --input-file ''", err)
		}
	}
	return nil
}

// RoundPath returns the path for the records of a round, given that of the round before: the file name of the first
// round with a hyphen and the number of the round before its extension. Standard output, a pipe or a device takes the
// records of all rounds, so its path stays.
func RoundPath(path string, round int) string {
	if info, err := os.Stat(path); path == sink.Stdout || err == nil && !info.Mode().IsRegular() {
		return path
	}
	dir, name := filepath.Split(path)
	ending := filepath.Ext(name)
	if strings.EqualFold(ending, ".gz") {
		ending = filepath.Ext(strings.TrimSuffix(name, ending)) + ending
	}
	if ending == name {
		ending = "" // a hidden file
	}
	name = strings.TrimSuffix(name, ending)
	if round > 2 {
		name = strings.TrimSuffix(name, fmt.Sprintf("-%d", round-1))
	}
	return fmt.Sprintf("%s%s-%d%s", dir, name, round, ending)
}

// seedFiles returns the files whose seeds this run reads. If the crawl is resumed, these are the files that this
// command line or configuration file gives, or else those that no earlier run has read to the end.
func (j *Job) seedFiles() []string {
	files := j.Settings.Seeds.Files
	switch {
	case !j.Resumed || j.moreSeeds:
		return files
	case j.state.Seeded():
		return nil
	case slices.Contains(files, sink.Stdout):
		j.log.Warn("standard input was not read to its end, and what was left of it is gone; give the rest of the seeds with --input-file")
		return slices.DeleteFunc(slices.Clone(files), func(file string) bool { return file == sink.Stdout })
	}
	return files
}

// claim returns a destination named as the state names the output at path; alone says to lock the file for this
// process. If goOn is true, at is the position up to which the state has committed the output. It is an error if the
// output has content and the state does not know it, because opening it at position zero would empty it.
func (j *Job) claim(path string, alone, goOn bool) (w *destination, at record.Position, err error) {
	w = &destination{name: recordsName(j.state, path)}
	if alone {
		w.lock, err = lockOwn(path, j.Settings.Fleet.Worker)
	}
	if err != nil || !goOn {
		return w, at, err
	}
	at = j.state.Position(w.name)
	if absolute, err := filepath.Abs(path); at.Format == "" && err == nil && path != sink.Stdout {
		at = j.state.Position(absolute)
	}
	info, errStat := os.Stat(path)
	holds := errStat == nil && info.Mode().IsRegular() && info.Size() > 0
	if errStat == nil && info.IsDir() {
		files, _ := filepath.Glob(filepath.Join(path, "*.warc*"))
		holds = len(files) > 0
	}
	if _, pages := j.state.Left(); at.Format == "" && pages > 0 && holds {
		err = fmt.Errorf("the crawl to resume does not know what is in %s: move %s to where it was, or that away", path, j.state.Dir())
	}
	return w, at, err
}

// openSink opens the file or stream that records go to. If the crawl is resumed, it truncates the file to the position
// in the state. A nil items means records of pages.
func (j *Job) openSink(path string, items *sink.ItemsConfig) (*destination, error) {
	o := &j.Settings.Output
	if o.Format == string(sink.WARC) {
		return j.openArchive(o.Path)
	}
	cfg := sink.Config{Format: sink.Format(o.Format), Fields: j.Settings.Extract.Names(), Chunk: o.Chunk, Gzip: o.Compressed()}
	if items != nil {
		cfg.Columns = items.Columns
	}
	if cfg.Gzip && j.Settings.Fleet.Shared() {
		return nil, cli.Usagef("--output %s: several processes of a job write no compressed files; give a name without .gz", o.Path)
	}
	resumes := j.Resumed && !j.Again // another round has a file of its own
	w, at, err := j.claim(path, j.own, resumes)
	switch {
	case err != nil:
	case resumes:
		cfg.Existing, cfg.Position, cfg.Records = sink.Resume, at.Bytes, at.Records
	case o.Overwrite:
		cfg.Existing = sink.Overwrite
	case j.own:
		cfg.Existing, cfg.Position, err = goingOn(path, cfg)
	}
	var behind int64
	if info, e := os.Stat(path); e == nil && info.Mode().IsRegular() && cfg.Existing == sink.Resume { // only a file can be cut
		behind = info.Size() - cfg.Position
	}
	var file *sink.Writer
	switch {
	case err != nil:
	case path == sink.Stdout:
		file, err = sink.New(j.term.Beside(j.Streams.Out), cfg)
	default:
		if file, err = sink.Open(path, cfg); err != nil && j.Settings.Fleet.Shared() && !j.own {
			err = fmt.Errorf("%w; with {worker} in its name a process goes on in the file of its own", err)
		}
	}
	switch {
	case err != nil:
		_ = w.Close() // nothing was written
		return nil, cli.Open("--output", err)
	case items != nil:
		w.Durable = sink.NewItems(file, *items)
	case cfg.Format == sink.Markdown:
		w.Durable = tree.New(file, path)
	default:
		w.Durable = file
	}
	if behind > 0 {
		j.log.Info("removed data after the last committed record", slog.String("file", path), slog.Int64("bytes", behind))
	}
	return w, nil
}

// openArchive opens a directory of archives, or a single archive file. If the crawl is resumed, the archive continues
// at the position in the state.
func (j *Job) openArchive(dir string) (*destination, error) {
	one, shared := j.Settings.Output.OneArchive(), j.Settings.Fleet.Shared()
	cfg := assembly.ArchiveConfig{Dir: dir, File: one, GoOn: shared, Settings: *j.Settings, Version: cli.Version()}
	if shared && !one { // the directory is named after this process
		if err := os.MkdirAll(dir, 0o777); err != nil { // the umask of the user takes bits away
			return nil, cli.Open("the archives", err)
		}
	}
	resumes := j.Resumed && (!j.Again || !one) // another round has a file of its own
	w, at, err := j.claim(dir, shared, resumes)
	if resumes {
		if _, pages := j.state.Left(); at.Format != "" || pages == 0 {
			cfg.Resume = &at
		}
	}
	if err == nil {
		w.Durable, err = assembly.OpenArchive(cfg)
	}
	if err != nil {
		_ = w.Close() // nothing was written
		return nil, cli.Open("the archives", err)
	}
	if c, ok := w.Durable.(interface{ Cut() int64 }); ok && c.Cut() > 0 {
		j.log.Info("removed data after the last complete exchange", slog.String("archives", dir), slog.Int64("bytes", c.Cut()))
	}
	return w, nil
}

func (j *Job) archiveDir() string {
	if j.Settings.Output.Format == string(sink.WARC) {
		return j.Settings.Output.Path
	}
	return j.Settings.WARC.Dir
}

// recordsName returns the name under which a state knows the file at path.
func recordsName(state *assembly.State, path string) string {
	if state == nil || path == sink.Stdout {
		return path
	}
	return config.RelativeTo(state.Dir(), path)
}

// lockOwn locks the file or directory at path for this process and creates the file if it does not exist. The lock ends
// with Close or with the process. On systems without locks it locks nothing.
func lockOwn(path, worker string) (io.Closer, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	}
	if err != nil {
		return nil, err
	}
	if !sqlitedb.TryLock(f) {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("another process called %s is writing %s: give each a fleet.worker name of its own, or wait until that one has ended", worker, path)
	}
	return f, nil
}

// goingOn returns how a process of a fleet opens the file of records named after it, and where the last whole record in
// the file ends. What follows that record is cut off: an earlier process of the same name may have been killed while it
// wrote. It is an error if the file holds something other than such records.
func goingOn(path string, cfg sink.Config) (how sink.Existing, whole int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return 0, 0, err
	}
	head := make([]byte, min(info.Size(), 4096))
	if _, err = io.ReadFull(f, head); err == nil {
		whole, err = lastLine(f, info.Size())
	}
	ours := sink.ByStart(head).Format == cfg.Format || cfg.Columns != nil && bytes.HasPrefix(head, cfg.Header())
	if err == nil && !ours && whole > 0 {
		err = fmt.Errorf("%s is no file of %s, to go on behind its records: choose another fleet.worker or --output", path, cfg.Format)
	}
	return sink.Resume, whole, err
}

// lastLine returns the offset behind the last line feed of a file, or zero if it has none.
func lastLine(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		part := buf[:min(end, int64(len(buf)))]
		start := end - int64(len(part))
		if _, err := f.ReadAt(part, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}
