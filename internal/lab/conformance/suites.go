package conformance

// suites are all that the page lists, by ID.
var suites = map[string]Suite{
	"whatwg-url": {
		Title:  "URLs: WHATWG URL",
		Source: "The web-platform-tests' urltestdata.json (BSD-3-Clause), as the module github.com/nlnwa/whatwg-url carries it. What a crawler adds to the standard is added to what a case wants: no fragment, no dot at the end of a host, escapes of unreserved characters undone.",
		Test:   "go test -run TestWHATWG ./internal/web/canonical",
	},
	"toascii": {
		Title:  "URLs: names of hosts (toascii)",
		Source: "The web-platform-tests' toascii.json (BSD-3-Clause), from the same module.",
		Test:   "go test -run TestHosts ./internal/web/canonical",
	},
	"idna": {
		Title:  "URLs: names of hosts (IDNA)",
		Source: "Unicode's IdnaTestV2 in the form of the web-platform-tests (Unicode License, BSD-3-Clause), from the same module.",
		Test:   "go test -run TestHosts ./internal/web/canonical",
	},
	"rfc3986": {
		Title:  "URLs: RFC 3986, normalization",
		Source: "Written by hand after section 6.2, with its examples: testdata/conformance/rfc3986.txt.",
		Test:   "go test -run TestNormalization ./internal/web/canonical",
	},
	"publicsuffix": {
		Title:  "URLs: public suffixes",
		Source: "Written by hand after the rules of publicsuffix.org: testdata/conformance/publicsuffix.txt.",
		Test:   "go test -run TestPublicSuffixes ./internal/web/scope",
	},
	"html5lib-trees": {
		Title:  "HTML: html5lib, trees",
		Source: "The html5lib-tests (MIT), as the module golang.org/x/net carries them, and that module's own (BSD-3-Clause).",
		Test:   "go test -run TestHTML5Lib ./internal/web/dom",
	},
	"html5lib-tokens": {
		Title:  "HTML: html5lib, tokens",
		Source: "The inputs of the html5lib-tests of tokenizers (MIT), from the same module. What is compared is our scanner with the tokenizer of x/net, which those tests are run on there.",
		Test:   "go test -run TestHTML5LibTokenizer ./internal/web/extract",
	},
	"labels": {
		Title:  "Encodings: labels",
		Source: "All 228 labels of the Encoding Standard, section 4.2, in three spellings: testdata/conformance/charset/labels.txt.",
		Test:   "go test -run TestLabels ./internal/web/extract",
	},
	"encodings": {
		Title:  "Encodings: of pages",
		Source: "Written by hand after the HTML Standard, section 13.2.3.2, and the Encoding Standard: testdata/conformance/charset/encodings.txt. Beyond them, a page that says nothing, or says windows-1252 and is not in ASCII, is UTF-8 if it is valid UTF-8.",
		Test:   "go test -run TestEncodings ./internal/web/extract",
	},
	"rfc9309": {
		Title:  "robots.txt: RFC 9309",
		Source: "Written by hand, with the examples of the RFC: testdata/conformance/rfc9309.",
		Test:   "go test -run TestConformance ./internal/web/robots",
	},
	"robots-google": {
		Title:  "robots.txt: Google's robots_test and the specification tests",
		Source: "The cases of robots_test.cc in github.com/google/robotstxt and of the correctness tests in github.com/google/robotstxt-spec-test (Apache-2.0), written anew as a table: testdata/conformance/robots-google.",
		Test:   "go test -run TestGoogle ./internal/web/robots",
	},
	"robots-other": {
		Title:  "robots.txt: beside another parser",
		Source: "Files that are drawn, read by ours and by the module github.com/temoto/robotstxt (MIT).",
		Test:   "go test -run TestConformsWithAnotherParser ./internal/web/robots",
	},
	"sitemaps": {
		Title:  "Sitemaps and feeds",
		Source: "Written by hand after sitemaps.org, RSS 2.0 and RFC 4287: testdata/conformance/sitemap.",
		Test:   "go test -run TestConformance ./internal/web/sitemap",
	},
	"codings": {
		Title:  "HTTP: content codings",
		Source: "Written by hand after RFC 9110 section 8.4, RFC 1950 to 1952, 7932, 8878 and 9659: streams that are whole, odd or spoilt.",
		Test:   "go test -run TestContentCodings ./internal/fetch",
	},
	"answers": {
		Title:  "HTTP: framing of answers",
		Source: "Written by hand after RFC 9112. All but a few mean the same to net/http, which is compared; the few are what it does not take and the RFC has clients take.",
		Test:   "go test -run TestAnswers ./internal/fetch/http1",
	},
	"headers": {
		Title:  "HTTP: Retry-After and RateLimit",
		Source: "The examples of RFC 9110 and 6585 and of draft-ietf-httpapi-ratelimit-headers 7 to 10, as data, and cases by hand: testdata/conformance/headers.",
		Test:   "go test -run TestConformance ./internal/ratelimit/header",
	},
	"links": {
		Title:  "HTTP: Link",
		Source: "Written by hand after the examples of RFC 8288 section 3.5 and RFC 7089 sections 2.2 and 4: testdata/conformance/headers/links.txt.",
		Test:   "go test -run TestLinkConforms ./internal/web/extract",
	},
	"surt": {
		Title:  "Archives: keys of the index (surt)",
		Source: "URLs written by hand, and the keys that the Python library surt 0.3.1 prints for them: testdata/conformance/surt. pywb looks URLs up by these keys.",
		Test:   "go test -run TestSurt ./internal/records/sink/warc",
	},
	"warc": {
		Title:  "Archives: WARC/1.1 and its index, by warcio and cdxj-indexer",
		Source: "An archive that we write, and what the Python packages warcio 1.8 and cdxj-indexer 1.4, pywb's own, make of it: testdata/conformance/warc. Where they are installed they read it anew, and so does the npm package warcio after `make readers`.",
		Test:   "go test -run 'TestIndexConforms|TestPythonReadsIt|TestWarcioReadsIt' ./internal/records/sink/warc",
	},
	"maze": {
		Title:  "Links: a maze",
		Source: "Written by hand: a site that hides URLs in every way that HTML, CSS, XML, headers, robots.txt and sitemaps have, testdata/maze.",
		Test:   "go test -run TestMaze ./internal/integration",
	},
	"security-crawl-maze": {
		Title:  "Links: security-crawl-maze",
		Source: "The ways to hide a link that github.com/google/security-crawl-maze (Apache-2.0) has, one page each, written anew: testdata/conformance/crawl-maze.",
		Test:   "go test -run TestSecurityCrawlMaze ./internal/integration",
	},
}
