package assembly

import (
	"net/http"

	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/pipeline"
)

// Own is what a program has of its own in a crawl: see crawl.Options.
type Own struct {
	OnRequest  func(*http.Request) error
	OnResponse func(*http.Response) error
	OnError    func(pipeline.Failure)
	OnSkip     func(pipeline.Skip)
	Embedded   bool // the sinks and handlers are those of a program, for no other to go on with
	Panics     bool // those of handlers end the program
	Transport  http.RoundTripper
	Named      func(host string) bool // hosts of seeds that the user named; nil: all
	Cookies    cookies.Keeper         // nil: those of the settings
	Bodies     func(mediaType string) *pipeline.BodyHandler
	Extractors map[string]pipeline.Extractor
}

// Embedded reports whether a program that embeds the crawler has run it: its sinks and handlers are that program's.
func (s *State) Embedded() bool { return s.store.Meta(disk.MetaEmbedded) != "" }
