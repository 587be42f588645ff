// Package redis brings a client of Redis and Valkey, for crawls that several processes share (Options.Fleet) and for
// admission services whose counts are there (the Store "redis://HOST:PORT"). It has no names of its own; import it for
// that effect:
//
//	import _ "github.com/treadlight/crawl/redis"
//
// A program that does not, and needs it, gets an error that says so.
package redis

import (
	_ "github.com/treadlight/crawl/internal/admission/redis" // registers itself
	_ "github.com/treadlight/crawl/internal/assembly/fleet"  // registers itself
)
