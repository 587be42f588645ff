// Package growth shows whether a crawl stays as quick and as small as it was when it is a
// hundred times as large, and what it costs to know ten million URLs.
//
// It is a test, as package peers is: each run is a process of the real crawl on a made-up
// site, which another process serves, so that the processor time of serving is nobody's. A
// page of the site is a function of its number, and there may be as many as one likes, on
// thousands of loopback addresses. `make growth` is the long form and README.md has its
// figures; without flags everything runs small, in some seconds.
//
//   - TestGrowth crawls whole sites of growing size, with the frontier in memory and with a
//     state on the disk.
//   - TestKnown visits some pages of a site of which each leads to a thousand new ones, so
//     that most of what is known is never visited, and resumes that state: after its end,
//     and after a kill -9 in the middle.
//   - TestWaiting looks at a crawl while all of its hosts have it wait.
//
// No figure makes a test fail: those are for people to read. What does is a page that was
// visited twice or not at all, a link that was lost, a record too many or too few.
//
// # How far the figures go
//
// A quarter of the links of the first site lead on, and the others are spread evenly over
// all of it, so that nothing of a page is like its neighbours'. Real sites repeat
// themselves, which every cache in a crawl is made for: their crawls slow down less. What
// is served is served from memory, by a server that takes a part of the same processors;
// pages per second of processor time are the crawl's own, and pages per second are not.
package growth
