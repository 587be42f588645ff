package assembly

import (
	"net/http"

	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/frontier/disk"
)

// Own is what a program brings into its crawl: see crawl.Options.
type Own struct {
	OnRequest  func(*http.Request) error
	OnResponse func(*http.Response) error
	Embedded   bool // the sinks and handlers belong to a program, so that no other can resume the crawl
	Transport  http.RoundTripper
	Named      func(host string) bool // reports whether the user named the host of a seed; nil means always
	Cookies    cookies.Keeper         // nil means the jar of the settings
}

// Embedded reports whether the crawl was run by a program that embeds the crawler, so that its sinks and handlers are
// that program's.
func (s *State) Embedded() bool { return s.store.Meta(disk.MetaEmbedded) != "" }
