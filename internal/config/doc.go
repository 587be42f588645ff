// Package config turns a file, the environment and command line flags into one
// checked tree of settings, the [Config] of a crawl, and knows where each of its
// values came from.
//
// Four layers are laid over each other, each stronger than the one before:
//
//	default  <  file (YAML or JSON)  <  CRAWL_* environment  <  flags
//
// When a crawl is resumed, the settings it was begun with ([Config.Save]) stand where the
// defaults do; saved.go says which of them may still change.
//
// A stronger layer replaces a value whole; lists are replaced, never appended to.
// [Load] is given the layers by its caller and looks at nothing else: it reads no
// flag, no variable and no file that it was not handed. It either returns a tree in
// which every value is in range, or [Problems] with everything that is wrong, each
// with the path of the setting, the place it was written and what to write instead.
//
// # One table
//
// What there is to set stands in one table: path, kind, unit, range, default, flag
// and the sentence about it. Parsing, range checks, names of variables (CRAWL_ and
// the path in capitals with underscores), flags ([Flags]; --set PATH=VALUE for rows without
// one), what a fleet agrees on, a reload changes and a resumed crawl keeps, the printed
// configuration ([Loaded.WriteYAML]) and the manual ([Reference]) are all read off
// it. The structs are the other half; a test holds the two together, comments
// included.
//
// # Why some defaults move
//
// Settings that bound each other (min, initial and max rate; first and longest retry
// delay) are compared once all layers are in. What the user wrote stays, and a
// neighbour still at its default moves just far enough: --rate 20 alone lifts the
// largest rate to 20, --max-rate 0.5 alone starts at 0.5. Two written values that
// contradict each other are an error naming both, wherever they were written. In the
// same way a rule for a host takes what it leaves out from ratelimit. A value that moved has
// the origin "follows PATH".
//
// # Why ratelimit.enabled is not a field
//
// A switch beside a strategy that may be "off" could contradict it. The strategy is
// the only truth, [RateLimit.Enabled] reads it, and the key ratelimit.enabled is a
// second spelling in files and the environment: false writes off, true writes the
// default strategy unless another one that paces is chosen already.
//
// # Why policies are not in the table
//
// The section resilience is the document of package binder, read by its table, with paths
// and lines of the file. A crawl has no hedges and no fallbacks, and a circuit for each
// host in the engine: the section's breaker is another spelling of three settings of
// ratelimit, of which the written one counts.
//
// # Bounds
//
// A file is at most 1 MiB and 32 levels deep, and YAML aliases and tags are
// refused, so a small file cannot unfold into a large tree. Header values that carry
// credentials appear neither in what is printed and logged nor in messages.
//
// Everything here is a plain value or a pure function; all of it may be used from
// several goroutines as long as nobody changes a Config that others read.
package config
