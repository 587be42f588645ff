// Command redis writes pages to a stream of Redis, from which any number of workers read.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/rueidis"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/record"
)

var pace crawl.PolitenessOptions

// stream is a sink that sends what it has at each Flush, in one round trip.
type stream struct {
	rueidis.Client
	name    string
	waiting []rueidis.Completed
}

func (s *stream) Write(r *record.Record) error {
	add := s.B().Xadd().Key(s.name).Id("*").FieldValue().FieldValue("url", r.URL).FieldValue("record", string(r.AppendJSON(nil)))
	s.waiting = append(s.waiting, add.Build())
	return nil
}

func (s *stream) Flush() error {
	for _, res := range s.DoMulti(context.Background(), s.waiting...) {
		if err := res.Error(); err != nil {
			return err
		}
	}
	s.waiting = nil
	return nil
}

func (s *stream) Close() error { defer s.Client.Close(); return s.Flush() }

func run(ctx context.Context, redis, seed string) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis}, DisableCache: true})
	if err != nil {
		return err
	}
	sink := &stream{Client: client, name: "pages"}
	defer sink.Close()
	c, err := crawl.New(crawl.Options{Politeness: pace, Sinks: []record.Sink{sink}})
	if err != nil {
		return err
	}
	return c.Run(ctx, seed)
}

func main() {
	fmt.Println("error:", run(context.Background(), os.Args[1], os.Args[2]))
}
