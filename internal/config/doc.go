// Package config turns a file, the environment and command line flags into one checked tree of settings, the [Config]
// of a crawl, and records where each of its values comes from.
//
//	default, or what the crawl was begun with  <  file (YAML or JSON)  <  CRAWL_* environment  <  flags
//
// A stronger layer replaces the whole value, also of a list. [Load] reads nothing but its arguments. It returns a tree
// in which every value is in range, or [Problems] with everything that is wrong: path, place and what to write instead.
//
// All settings are described in one table (table.go), from which everything else is derived, including the flags and
// the manual. The structs are the other half; a test ensures that they match the table.
//
// Settings that bound each other are compared when all layers are loaded. What the user wrote stays, and a neighboring
// value that is still the default moves just far enough: it has the origin "follows PATH". Two written values that
// contradict each other are an error. In the same way a rule for a host takes values that it leaves out from ratelimit.
//
// A file has at most 1 MiB and 32 levels; YAML aliases and tags are errors. Credentials appear neither in what is
// printed and logged nor in messages. Everything here is a plain value or a pure function.
package config
