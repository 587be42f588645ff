package config

var fetchFields = []field{
	{
		path: "fetch.user_agent", kind: kindText, flag: "user-agent", short: "U",
		doc: "User-Agent to send; empty = Treadlight/VERSION (+CONTACT)", example: "ExampleBot/1.0 (+https://example.com/bot)", check: headerText,
	},
	{path: "fetch.contact", kind: kindText, flag: "contact", doc: "URL or mail address for the operators of the sites; empty = none, with a warning", example: "https://example.com/bot", check: contact},
	// Redacted wherever it is shown: this is where credentials are put.
	{
		path: "fetch.headers", kind: kindList, arg: "header", flag: "header", short: "H",
		doc: `header for every request, "Name: value", repeatable; empty = none`, example: "Accept-Language: en", check: header, redact: redactHeader,
	},
	// It bounds all others; they may be longer without harm.
	{path: "fetch.timeout", kind: kindDuration, def: "30s", min: "100ms", max: "1h", flag: "timeout", doc: "longest fetch, from the lookup of the name to the last byte"},
	// Room for long pages: what is larger is seldom a page, and holds no links.
	{path: "fetch.max_body", kind: kindSize, def: "10MiB", min: "1KiB", max: "4GiB", was: "max-body", doc: "bytes of a body that are kept, after decoding"},
	// RFC 9110 section 15.4 leaves the limit to the client; loops are found by any.
	{path: "fetch.max_redirects", kind: kindInt, unit: "redirects", def: "10", min: "0", max: "50", was: "max-redirects", agreed: always, doc: "redirects followed in a row; 0 = none"},
	// Off, because over HTTP/2 all fetches of a host share one connection and one fate,
	// which hides from the limiter which of them was slow.
	{path: "fetch.http2", kind: kindBool, def: "false", was: "http2", doc: "offer HTTP/2 to servers"},
	{path: "fetch.insecure", kind: kindBool, def: "false", flag: "insecure", short: "k", doc: "accept any TLS certificate"},
	// A link must not make the crawler a way into the network it runs in.
	{
		path: "fetch.allow_private", kind: kindBool, def: "false", flag: "allow-private",
		doc: "connect to all private and loopback addresses, not only to those that the seeds named when the crawl began; to link-local ones, and those of cloud metadata, only a seed or --resolve leads that names the address itself",
	},
	// Read at the header, so that the bandwidth is saved, of the site as well.
	{
		path: "fetch.accept_types", kind: kindList, was: "accept-type",
		doc: `media type of pages whose bodies are read, such as text/*, or with ! before it of those that are not, repeatable; empty = all`, example: "!video/*", check: mediaPattern,
	},
	{
		path: "fetch.skip_larger", kind: kindSize, def: "0", min: "1", max: "1TiB", zero: "any size", was: "skip-larger",
		doc: "longest body by its Content-Length that is read at all, as it is sent; 0 = any, and cut at max_body", example: "50MiB",
	},
	{path: "fetch.conditional", kind: kindBool, def: "true", was: "conditional", doc: "in later rounds, ask for a page only if it has changed; false = for every page whole"},
}

var accessFields = []field{
	{
		path: "access.auth", kind: kindList, arg: "login", flag: "auth",
		doc: "credentials for a host, \"HOST=user:password\" or \"HOST=bearer TOKEN\", ${NAME} for a variable of the environment, repeatable; empty = none", example: "docs.example.com=bearer ${DOCS_TOKEN}", check: authItem, redact: redactAuthItem,
	},
	{path: "access.netrc", kind: kindText, arg: "file", was: "netrc", doc: "netrc file with credentials for hosts; empty = none", example: "/home/me/.netrc", check: noStream},
	// Off, as a session changes what a site shows, and a page should not depend on which
	// was fetched before.
	{path: "access.cookies", kind: kindBool, def: "false", was: "cookies", doc: "keep cookies and send them back, within this run"},
	{
		path: "access.cookie_file", kind: kindText, arg: "file", flag: "cookie-file",
		doc: "cookies.txt of a browser to begin with, which turns cookies on; empty = none", example: "cookies.txt", check: noStream,
	},
	{
		path: "access.proxy", kind: kindText, arg: "url", flag: "proxy",
		doc: "proxy for all hosts, http://, https:// or socks5://, or env for what HTTP_PROXY and its like say; of hosts behind it only addresses, and names that are found here, are checked; empty = none", example: "http://proxy.example.com:3128", check: proxy, redact: redactProxy,
	},
	{
		path: "access.cert", kind: kindText, arg: "file", was: "cert",
		doc: "PEM file of the client certificate for servers that ask for one, shown to hosts that seeds name; empty = none", example: "client.pem", check: noStream,
	},
	{path: "access.key", kind: kindText, arg: "file", was: "key", doc: "PEM file of its key; empty = in the file of the certificate", example: "client.key", check: noStream},
	{path: "access.ca_file", kind: kindText, arg: "file", was: "ca-file", doc: "PEM file of authorities that are trusted beside the system's; empty = none", example: "ca.pem", check: noStream},
	{
		path: "access.resolve", kind: kindList, arg: "addr", flag: "resolve",
		doc: "addresses of a host, \"HOST:PORT:ADDRESS[,ADDRESS]\", * for every host or port, repeatable; empty = what name servers say", example: "example.com:443:192.0.2.7", check: resolveItem,
	},
	{path: "access.family", kind: kindChoice, def: "any", enum: []string{"any", "ipv4", "ipv6"}, doc: "what to connect over"},
	{path: "access.dns_server", kind: kindText, was: "dns-server", doc: "IP address of a name server, with a port unless it is 53; empty = those of the system", example: "192.0.2.53", check: dnsServer},
}
