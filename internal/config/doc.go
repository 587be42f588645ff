// Package config turns a file, the environment and command line flags into one checked tree of
// settings, the [Config] of a crawl, and knows where each of its values came from.
//
// Four layers are laid over each other, each stronger than the one before:
//
//	default  <  file (YAML or JSON)  <  CRAWL_* environment  <  flags
//
// When a crawl is resumed, the settings it was begun with ([Config.Save]) stand where the defaults
// do. A stronger layer replaces a value whole, lists too. [Load] reads nothing that it was not
// handed. It returns a tree in which every value is in range, or [Problems] with everything that is
// wrong, each with the path of the setting, the place it was written and what to write instead.
//
// What there is to set stands in one table: path, kind, unit, range, default, flag and the sentence
// about it. Parsing, range checks, names of variables, flags ([Flags]), what a fleet agrees on, a
// reload changes and a resumed crawl keeps, the printed configuration ([Loaded.WriteYAML]) and the
// manual ([Reference]) are all read off it. The structs are the other half; a test holds them together.
//
// Settings that bound each other (min, initial and max rate; first and longest retry delay) are
// compared once all layers are in. What the user wrote stays, and a neighbour still at its default
// moves just far enough: it has the origin "follows PATH". Two written values that contradict each
// other are an error. In the same way a rule for a host takes what it leaves out from ratelimit.
//
// The key ratelimit.enabled is a second spelling of the strategy: false writes off, true the default
// strategy unless another one that paces is chosen already. The section resilience is the document of
// package binder; its circuit breaker writes three settings of ratelimit.
//
// A file is at most 1 MiB and 32 levels deep, and YAML aliases and tags are refused. Header values
// that carry credentials appear neither in what is printed and logged nor in messages. Everything
// here is a plain value or a pure function.
package config
