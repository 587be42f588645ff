package config

import (
	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/fetch"
)

// bytesFields are which bodies are read, and what they may unpack to.
var bytesFields = []field{
	// Read at the header, so that the bandwidth is saved, of the site as well.
	{
		path: "fetch.accept_types", kind: kindList, flag: "accept-type",
		doc: `media type of pages whose bodies are read, such as text/*, or with ! before it of those that are not, repeatable; empty = all`, example: "!video/*",
		check: mediaPattern,
	},
	{
		path: "fetch.skip_larger", kind: kindSize, def: "0", min: "1", max: "1TiB", zero: "any size", flag: "skip-larger",
		doc: "longest body by its Content-Length that is read at all, as it is sent; 0 = any, and cut at max_body", example: "50MiB",
	},
	// Pages unpack to ten times their size, and deflate cannot unpack to more than 1032 times
	// it. What goes beyond is made to fill a memory.
	{
		path: "fetch.max_ratio", kind: kindInt, unit: "times", def: "1000", min: "10", max: "1000000000", zero: "any",
		doc: "times its size a body may unpack to, once that is a mebibyte; 0 = any",
	},
}

// mediaPattern is for patterns of media types.
func mediaPattern(s string) error {
	_, err := fetch.NewFilter([]string{s}, 0)
	return err
}

// warnBodies tells of bodies and texts that nobody will see.
func (l *loader) warnBodies() {
	o := &l.cfg.Output
	if o.Text && o.Format != "jsonl" {
		l.warnings = append(l.warnings, "output.text: the texts are not written, since the format "+document.Quote(o.Format)+" has no place for them; give --format jsonl")
	}
	if o.Body == "store" && o.Format != "jsonl" {
		l.warnings = append(l.warnings, "output.body: the bodies are not written, since the format "+document.Quote(o.Format)+" has no place for them; give --format jsonl")
	}
}
