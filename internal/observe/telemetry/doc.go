// Package telemetry measures how long the parts of a crawl take: histograms for Prometheus.
//
// A [Meter] is told of single events by the stages of a crawl, and is read by whoever serves
// metrics. Until [Meter.Start] it counts nothing, so that a crawl at which nobody looks pays
// for the reading of one flag; after it an observation takes some tens of nanoseconds, no
// lock and no memory. Every histogram has fixed buckets and, for servers that take them,
// native ones of a bounded number. The only label is the class of an outcome, of which there
// are two dozen: a label for hosts would have no bound, and what is known of single hosts is
// in the snapshot.
//
// What is counted, and not measured, is in the pipeline's snapshot; package console makes
// metrics of both.
package telemetry
