package config

import "github.com/treadlight/crawl/internal/records/sink/warc"

// warcFields are the archives of a crawl.
var warcFields = []field{
	{
		path: "warc.dir", kind: kindText, flag: "warc",
		doc: "directory for archives (WARC) of all that is sent and comes, beside the records; empty = none, unless that is the format", example: "archive",
		check: directory,
	},
	{
		path: "warc.prefix", kind: kindText, def: warc.DefaultPrefix,
		doc:   "how the names of archives begin",
		check: warc.CheckPrefix,
	},
	// The size that archives commonly are cut at: large enough to be few, small enough to be
	// moved and indexed one at a time.
	{
		path: "warc.max_size", kind: kindSize, def: "1GB", min: "64KiB", max: "1TiB", flag: "warc-max-size",
		doc: "size at which an archive ends and the next one begins; the last exchange may exceed it",
	},
	{
		path: "warc.host", kind: kindBool, def: "true",
		doc: "put the name of this machine into the names of archives and into what they tell of themselves",
	},
	// About 40 MB. What is forgotten is stored once more.
	{
		path: "warc.remember", kind: kindInt, unit: "bodies", def: "131072", min: "1", max: "100000000", zero: "none",
		doc: "bodies known at a time, so that the same one is archived once, about 300 bytes each; 0 = none",
	},
	// Archives are handed on, and with them whatever opens something.
	{
		path: "warc.credentials", kind: kindBool, def: "false",
		doc: "keep the values of credentials and cookies in archived requests, in files for their owner alone",
	},
	// As Heritrix and wget do: the directive is about showing copies, not about having them.
	{
		path: "warc.noarchive", kind: kindChoice, def: "ignore", enum: []string{"ignore", "obey"},
		doc: "pages that say noarchive to robots: ignore = archived, with metadata that says so; obey = only the metadata",
	},
}

// checkArchives reports archives that have no place, or two of them.
func (l *loader) checkArchives() {
	o := &l.cfg.Output
	if o.Format != "warc" {
		return
	}
	if o.Path == "-" {
		l.report("output.path", l.origins["output.path"], "archives cannot go to standard output%s; give --output with a name that ends in .warc.gz or with a directory, or --warc with one for archives beside the records",
			l.place("output.format"))
	}
	if l.cfg.WARC.Dir != "" {
		l.report("warc.dir", l.origins["warc.dir"], "the archives are in output.path already, for output.format is warc%s; give one of --warc and --format warc",
			l.place("output.format"))
	}
}
