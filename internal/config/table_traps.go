package config

// trapFields are what is done about URLs that lead nowhere, and pages that say what others
// have said.
var trapFields = []field{
	// On by default: a calendar without an end costs its server more than anyone else.
	{
		path: "traps.enabled", kind: kindBool, def: "true", flag: "traps",
		doc:    "leave URLs that lead nowhere, as those of endless calendars and of filters whose pages have nothing new",
		unless: "follow URLs that lead nowhere too",
	},
	{
		path: "traps.report", kind: kindBool, def: "false",
		doc: "count and tell URLs that lead nowhere, and follow them",
	},
	// What servers take, by and large: nginx and Apache have 8 KiB for the line of a request.
	{
		path: "traps.max_url_length", kind: kindInt, unit: "bytes", def: "8000", min: "100", max: "8192",
		zero: "no limit",
		doc:  "longest URL that is followed; 0 = no limit",
	},
	// The deepest pages of large documentations have a dozen.
	{
		path: "traps.max_depth", kind: kindInt, unit: "segments", def: "32", min: "1", max: "4096",
		zero: "no limit",
		doc:  "segments of a path at most; 0 = no limit",
	},
	{
		path: "traps.max_repeats", kind: kindInt, unit: "times", def: "3", min: "1", max: "1000",
		zero: "no limit",
		doc:  "times that a segment of a path, or some of them, may stand in a row; 0 = no limit",
	},
	// Twice the months of a year.
	{
		path: "traps.max_stale", kind: kindInt, unit: "pages", def: "24", min: "8", max: "1000000",
		zero: "following all of them",
		doc:  "pages with nothing new after which URLs like theirs are left; 0 = follow all of them",
	},
	{
		path: "traps.max_far", kind: kindInt, unit: "URLs", def: "64", min: "1", max: "65535",
		zero: "no limit",
		doc:  "URLs of a kind whose dates are more than five years from now, or before 1700; 0 = no limit",
	},
	// A trap has no end and can wait; most sites have fewer pages, and are visited whole.
	{
		path: "traps.after", kind: kindInt, unit: "pages", def: "1000", min: "1", max: "1000000000",
		zero: "the first page on",
		doc:  "pages of a host before what its pages say counts, and dates; 0 = from the first",
	},
	// Off by default: a fingerprint costs as much as the links, see docs/explanation/links-and-traps.md.
	{
		path: "duplicates.find", kind: kindChoice, def: "off", enum: []string{"off", "exact", "near"}, flag: "duplicates",
		doc: "mark pages that repeat an earlier one: byte by byte, or also in nearly all they say",
	},
	{
		path: "duplicates.max_pages", kind: kindInt, unit: "pages", def: "1000000", min: "1000", max: "1000000000",
		doc: "pages that others are compared with, the last ones; about 200 bytes each",
	},
}
