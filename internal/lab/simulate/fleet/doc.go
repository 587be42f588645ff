// Package fleet is a model of many crawl processes on one frontier: how long they take for a
// web, what holds them back, and what their Redis has to bear.
//
// A web is hosts, each with a number of pages, from a power law, and a rate at which it may be
// asked. A process owns some hosts at a time, never one that another process owns, and has
// room for a number of pages per second, be it by its processors or by its line. While the
// hosts it owns ask for less than that, politeness holds it back and each host goes at its
// own rate; when they ask for more, the process does, and all its hosts are slowed alike. A
// host that is done gives its place to the next one that nobody owns, in the order in which
// hosts were found, which is random.
//
// So a process is a server that is shared in equal parts with a limit for each customer, and
// [Run] plays that exactly, event by event: a host ends when its process has served its pages,
// which under one common slowdown is a matter of adding up. It takes about a second for a
// million hosts. What it leaves out: failures, retries, robots.txt and sitemaps, hosts found
// late, learning of rates (a host has its rate from the first page), and the sizes of pages
// differing. All of these make a crawl longer, and none makes another resource the first to
// run out.
//
// Redis is counted, not played: commands and bytes for a page and for a URL are figures that
// were measured, in [Config].
//
// Everything here is a pure function of its Config.
package fleet
