package config

// sitemapFields are which lists of URLs are read.
var sitemapFields = []field{
	// Sites publish them for crawlers, and pages that nothing links to are only there.
	{
		path: "sitemaps.enabled", kind: kindBool, def: "true", flag: "sitemaps",
		doc:    "ask for the sitemaps that robots.txt names, else for /sitemap.xml; none with depth 0",
		unless: "do not ask for sitemaps",
	},
	// A feed is how a site tells of what is new.
	{
		path: "sitemaps.feeds", kind: kindBool, def: "true", flag: "feeds",
		doc:    "follow the RSS and Atom feeds that pages name, and read their links",
		unless: "do not follow feeds, nor read their links",
	},
	// A thousand of 50,000 URLs each are more than a crawl knows by default. Fifty thousand
	// is what one index may name.
	{
		path: "sitemaps.max", kind: kindInt, unit: "sitemaps", def: "1000", min: "1", max: "50000",
		doc: "sitemaps read of one host at most, the first 16 of them before its pages",
	},
}
