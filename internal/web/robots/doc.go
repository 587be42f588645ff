// Package robots reads robots.txt and says what may be asked for, and why.
//
// [Parse] turns the bytes of a file into a [File] and never fails: RFC 9309 wants what
// is readable to be obeyed. [File.Agent] picks the [Rules] of one crawler, and
// [Rules.Check] gives a [Verdict] on a path, with the line that decided it.
//
// A file has to be fetched before it can be read, and every origin has its own. A
// [Cache] keeps what is known of each: an origin is unknown, pending while its file is
// being asked for, known, or unreachable. Whoever schedules looks an origin up before a
// URL of it is fetched. If there are no rules yet the URL stays in the frontier; if
// [Cache.Begin] says so, the request for robots.txt goes into the host's queue like any
// other, so that it is paced too; and its end, whatever it was, goes through
// [FromAnswer] to [Cache.Answer].
//
// What an answer means (RFC 9309 section 2.3.1): a file is obeyed for a day; a redirect
// is followed by the caller, five times at most; any other 4xx than 429 says that there
// is no file, so everything is allowed; 429 is the host asking for patience and no
// answer at all; 5xx and a host that cannot be reached forbid everything, until a later
// try succeeds. A copy from before such a failure stays in force for a day longer.
//
// Crawl-delay and Request-rate are no part of RFC 9309 but are what hosts write who want
// to be asked slowly; [Rules.Pause] is what both come to.
//
// Nothing here reads a clock, waits or does I/O. Files and Rules never change and may
// be shared; a Cache is safe for concurrent use.
package robots
