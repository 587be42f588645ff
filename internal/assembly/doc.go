// Package assembly builds a crawl from its settings and owns its life: new, resumed, another
// round, a member of a fleet, reloaded, stopped.
//
// It is the one room that knows all others. [New] translates the settings into the terms of each
// part (limiter, client, scope, frontier, pipeline), puts the parts together and fetches nothing.
// [Crawler.Run] then starts what runs beside the pipeline and waits for it. A state, a fleet, a
// console and an archive are parts like the others; each has a file of its own here.
//
// The package crawl of the module's root is its public face, and documents the same types for users.
package assembly
