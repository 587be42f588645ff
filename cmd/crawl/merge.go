package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/flags"
	"github.com/treadlight/crawl/internal/records/merge"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/atomicfile"
)

// merging is `crawl merge` with its flags.
type merging struct {
	cli.Streams
	paths             []string
	out               string
	overwrite, asJSON bool
	quiet             bool
	cfg               merge.Config
}

// mergeCommand returns the command that merges the files that the processes of a fleet have written into one.
func mergeCommand(s cli.Streams) *cobra.Command {
	o := merging{Streams: s}
	cmd := verb("merge")
	cmd.Args, cmd.ValidArgsFunction = flags.SomeArgs("merge needs the FILEs or DIRs that 'crawl --output' wrote, and was given none"), nil
	cmd.RunE = flags.Interruptible(func(ctx context.Context, args []string) error {
		o.paths = args
		return o.run(ctx)
	})
	f := cmd.Flags()
	f.SortFlags = false // the order is by importance
	f.StringVarP(&o.out, "output", "o", sink.Stdout, "write to this `file`, compressed if its name ends in .gz or .zst; - is standard output")
	f.BoolVar(&o.overwrite, "overwrite", false, "replace the output file if it exists")
	f.BoolVar(&o.cfg.Newest, "newest", false, "of a URL the record that was fetched last counts, whatever it says")
	f.BoolVar(&o.cfg.SkipDamaged, "skip-damaged", false, "pass over lines that are no records, and count them")
	f.BoolVar(&o.asJSON, "json", false, "tell what was done as JSON, on standard error")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "tell only what went wrong")
	f.Int64Var(&o.cfg.Memory, "memory", 64, "memory for sorting, in `MiB`, 1 to 65536; the rest goes to disk, 48 bytes a record")
	f.StringVar(&o.cfg.TempDir, "temp", "", "`directory` for what is sorted on disk; empty = the system's for such files")
	return cmd
}

func (o *merging) run(ctx context.Context) error {
	if o.cfg.Memory < 1 || o.cfg.Memory > 1<<16 {
		return cli.Usagef("--memory %d: give 1 to 65536, in MiB", o.cfg.Memory)
	}
	o.cfg.Memory <<= 20
	if err := o.checkOutput(); err != nil {
		return err
	}
	term := cli.NewTerminal(o.Err, o.Env, "auto")
	if term.Live() && !o.quiet {
		o.cfg.Progress = func(done, total int64) {
			term.Refresh(fmt.Sprintf("%d%%", 100*done/max(total, 1)), cli.Size(done)+" of "+cli.Size(total))
		}
		defer term.Clear()
	}
	files, err := merge.Files(o.paths)
	if err != nil {
		return cli.IO(err)
	}
	for _, file := range files {
		if err := cli.CheckSkipped(file); err != nil {
			return err
		}
	}
	m, err := merge.Prepare(ctx, files, o.cfg)
	if err != nil {
		return mergeError(ctx, err)
	}
	ending, format := filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(o.out, ".gz"), ".zst")), m.Report().Format
	if named := sink.ByEnding(ending).Format; named != "" && format != "" && named != format && ending != ".txt" {
		return cli.Usagef("--output %s: the files are %s, and merge keeps their format: give another name", o.out, format)
	}
	if o.out == sink.Stdout {
		err = m.Write(ctx, o.Streams.Out)
		if err != nil && ctx.Err() == nil && !cli.Has[*merge.DamageError](err) {
			return cli.Output(err)
		}
	} else {
		err = o.replace(ctx, m)
	}
	if err != nil {
		return mergeError(ctx, err)
	}
	term.Clear()
	return o.tell(m.Report())
}

// checkOutput returns an error if the output file cannot be used, before hours of reading.
func (o *merging) checkOutput() error {
	if o.out == sink.Stdout {
		return nil
	}
	if o.out == "" {
		return cli.Usagef("--output is empty: give a file, or - for standard output")
	}
	info, err := os.Stat(o.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(o.out)); err != nil {
			return cli.IOf("open --output: %w", err)
		}
	case err != nil:
		return cli.IOf("open --output: %w", err)
	case info.IsDir():
		return cli.Usagef("--output %s is a directory: give a file", o.out)
	case info.Size() > 0 && info.Mode().IsRegular() && !o.overwrite:
		return cli.IOf("open --output: %s exists and is not empty: add --overwrite to replace it, or choose another file", o.out)
	}
	return nil
}

// replace writes the whole output file or leaves it as it was. So the output may be one of the files that are read.
func (o *merging) replace(ctx context.Context, m *merge.Merged) error {
	err := atomicfile.Replace(o.out, 0o666, func(w io.Writer) (err error) {
		end := func() error { return nil }
		switch {
		case strings.HasSuffix(o.out, ".gz"):
			z := gzip.NewWriter(w)
			w, end = z, z.Close
		case strings.HasSuffix(o.out, ".zst"):
			var z *zstd.Encoder
			if z, err = zstd.NewWriter(w); err != nil {
				return err
			}
			w, end = z, z.Close
		}
		return cmp.Or(m.Write(ctx, w), end())
	})
	if err != nil {
		return cli.Write("--output", err)
	}
	return nil
}

// mergeError returns an error of package merge in the words of the command line, with its exit code.
func mergeError(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return &cli.Error{Code: cli.CodeInterrupted, Err: errors.New("interrupted: the output was not written")}
	}
	if e, ok := errors.AsType[*merge.DamageError](err); ok {
		if kind := cli.FileKind(e.Path); kind != "" && e.Line == 1 {
			return cli.IOf("%w; %s", err, kind)
		}
		return cli.IOf("%w; mend it, or pass over such lines with --skip-damaged", err)
	}
	return cli.IO(err)
}

func (o *merging) tell(r merge.Report) error {
	if o.asJSON {
		return cli.WriteJSON(o.Err, r)
	}
	for _, path := range r.Cut {
		cli.Say(o.Err, "crawl: the end of %s is cut off, and was passed over\n", cli.Clean(path))
	}
	if r.Damaged > 0 {
		cli.Say(o.Err, "crawl: passed over as they are no records: %s\n", cli.Plural(r.Damaged, "line"))
	}
	if !o.quiet {
		what, again := "record", "more of the same URLs"
		if r.Format == merge.CDXJ {
			what, again = "line", "that came twice"
		}
		to := cmp.Or(strings.TrimPrefix(o.out, sink.Stdout), "standard output")
		cli.Say(o.Err, "%s of %s in %s; %s %s left out\n", cli.Plural(r.Written, what), cli.Plural(int64(r.Files), "file"), cli.Clean(to),
			cli.Count(r.Read-r.Written), again)
	}
	return nil
}
