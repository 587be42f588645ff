// Package assembly builds a crawl from its settings and manages its life: a new crawl, a resumed one, another round, a
// member of a fleet, reloading, stopping.
//
// It is the one package that knows all others. [New] translates the settings into the configuration of each part
// (limiter, client, scope, frontier, pipeline), connects the parts and fetches nothing. [Crawler.Run] then starts what
// runs beside the pipeline, and waits for the pipeline. State, fleet, console and archive are parts like the others;
// each has a file of its own here.
//
// The package crawl of the module's root is its public face, and documents the same types for users.
package assembly
