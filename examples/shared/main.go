// Command shared has two crawls, a client and its own requests ask a host as one: one state, one pace.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/treadlight/crawl"
)

var pace crawl.PolitenessOptions

func run(ctx context.Context, out io.Writer, base string) error {
	polite, err := crawl.NewPoliteness(pace)
	if err != nil {
		return err
	}
	defer polite.Close()
	var pages atomic.Int64
	var all errgroup.Group
	for _, seed := range []string{"/catalogue/page-1", "/catalogue/page-2"} {
		c, err := crawl.New(crawl.Options{Shared: polite, HandlersFollow: true, OnPage: func(context.Context, *crawl.Page) error {
			pages.Add(1)
			return nil
		}})
		if err != nil {
			return err
		}
		all.Go(func() error { return c.Run(ctx, base+seed) })
	}
	all.Go(func() error {
		own := &http.Client{Transport: polite.Transport(nil)} // or Acquire and Feedback, for what is no http.Client
		res, err := own.Get(base + "/catalogue/dune")
		if err != nil {
			return err
		}
		return res.Body.Close()
	})
	if err := all.Wait(); err != nil {
		return err
	}
	snap := polite.Snapshot()
	fmt.Fprintln(out, pages.Load(), "answers to two crawls;", len(snap.Top), "host;", snap.InFlight, "permits left out")
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
