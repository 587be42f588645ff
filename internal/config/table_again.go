package config

// againFields are what a crawl does when it visits again what it knows.
var againFields = []field{
	{
		path: "fetch.conditional", kind: kindBool, def: "true", flag: "conditional",
		unless: "in later rounds, ask for every page whole",
		doc:    "in later rounds, ask for a page only if it has changed; false = for every page whole",
	},
}
