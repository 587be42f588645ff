package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/examples/internal/check"
	"github.com/treadlight/crawl/record"
)

func TestOutput(t *testing.T) {
	check.Output(t, "archive", check.Pages(check.Books), func(ctx context.Context, out io.Writer, base string) error {
		file := filepath.Join(t.TempDir(), "site.warc")
		o := crawl.Options{Politeness: check.Fast}
		sink, err := crawl.OpenArchive(crawl.ArchiveConfig{Dir: file, File: true, Options: o})
		if err != nil {
			return err
		}
		o.Archives = []record.Sink{sink}
		c, err := crawl.New(o)
		if err != nil {
			return err
		}
		if err := c.Run(ctx, base); err != nil {
			return err
		}
		if err := sink.Close(); err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		return run(out, f, base)
	})
}
