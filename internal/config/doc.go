// Package config turns a file, the environment and command line flags into one checked tree of
// settings, the [Config] of a crawl, and knows where each of its values came from.
//
//	default, or what the crawl was begun with  <  file (YAML or JSON)  <  CRAWL_* environment  <  flags
//
// A stronger layer replaces a value whole, lists too. [Load] reads nothing that it was not handed. It returns a
// tree in which every value is in range, or [Problems] with everything that is wrong: path, place and what to
// write instead.
//
// What there is to set stands in one table (table.go); all else is read off it, the flags and the manual too. The
// structs are the other half; a test holds them together.
//
// Settings that bound each other are compared once all layers are in. What the user wrote stays, and a neighbour
// still at its default moves just far enough: it has the origin "follows PATH". Two written values that contradict
// each other are an error. In the same way a rule for a host takes what it leaves out from ratelimit.
//
// A file is at most 1 MiB and 32 levels deep, and YAML aliases and tags are refused. Credentials appear neither in
// what is printed and logged nor in messages. Everything here is a plain value or a pure function.
package config
