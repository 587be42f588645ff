package config

// traceFields are what a collector of OpenTelemetry is told.
var traceFields = []field{
	{
		path: "traces.endpoint", kind: kindText, flag: "otlp",
		doc: "URL of a collector of OpenTelemetry (OTLP over HTTP) for a trace of each URL; empty = none", example: "http://localhost:4318",
		check: collector,
	},
	// Hidden whole: there is nothing to send there but what lets one in.
	{
		path: "traces.headers", kind: kindList,
		doc: `headers for the collector, "Name: value"; empty = none`, example: "Authorization: Bearer ${OTLP_TOKEN}",
		check: header, redact: redactHeaderValue,
	},
	// Whoever turns them on wants to see something. A large crawl sends a dozen spans a URL.
	{
		path: "traces.sample", kind: kindNumber, unit: "share", def: "1", min: "0", max: "1",
		doc: "share of URLs that is traced; 0 = none",
	},
	{
		path: "traces.insecure", kind: kindBool, def: "false",
		doc: "take any certificate of the collector",
	},
	// Off: it tells strangers which requests belong together.
	{
		path: "traces.propagate", kind: kindBool, def: "false",
		doc: "send the hosts that are crawled the header traceparent; for your own",
	},
}
