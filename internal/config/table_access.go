package config

// accessFields are who we are to sites, and which way we take to them.
var accessFields = []field{
	{
		path: "access.auth", kind: kindList, flag: "auth",
		doc: "credentials for a host, \"HOST=user:password\" or \"HOST=bearer TOKEN\", ${NAME} for a variable of the environment, repeatable; empty = none", example: "docs.example.com=bearer ${DOCS_TOKEN}",
		check: authItem, redact: redactAuthItem,
	},
	{
		path: "access.netrc", kind: kindText, flag: "netrc",
		doc: "netrc file with credentials for hosts; empty = none", example: "/home/me/.netrc",
		check: noStream,
	},
	// Off, as a session changes what a site shows, and a page should not depend on which
	// was fetched before.
	{
		path: "access.cookies", kind: kindBool, def: "false", flag: "cookies",
		doc: "keep cookies and send them back, within this run",
	},
	{
		path: "access.cookie_file", kind: kindText, flag: "cookie-file",
		doc: "cookies.txt of a browser to begin with, which turns cookies on; empty = none", example: "cookies.txt",
		check: noStream,
	},
	{
		path: "access.proxy", kind: kindText, flag: "proxy",
		doc: "proxy for all hosts, http://, https:// or socks5://, or env for what HTTP_PROXY and its like say; of hosts behind it only addresses, and names that are found here, are checked; empty = none", example: "http://proxy.example.com:3128",
		check: proxy, redact: redactProxy,
	},
	{
		path: "access.cert", kind: kindText, flag: "cert",
		doc: "PEM file of the client certificate for servers that ask for one, shown to hosts that seeds name; empty = none", example: "client.pem",
		check: noStream,
	},
	{
		path: "access.key", kind: kindText, flag: "key",
		doc: "PEM file of its key; empty = in the file of the certificate", example: "client.key",
		check: noStream,
	},
	{
		path: "access.ca_file", kind: kindText, flag: "ca-file",
		doc: "PEM file of authorities that are trusted beside the system's; empty = none", example: "ca.pem",
		check: noStream,
	},
	{
		path: "access.resolve", kind: kindList, flag: "resolve",
		doc: "addresses of a host, \"HOST:PORT:ADDRESS[,ADDRESS]\", * for every host or port, repeatable; empty = what name servers say", example: "example.com:443:192.0.2.7",
		check: resolveItem,
	},
	{
		path: "access.dns_server", kind: kindText, flag: "dns-server",
		doc: "IP address of a name server, with a port unless it is 53; empty = those of the system", example: "192.0.2.53",
		check: dnsServer,
	},
	// Busy sites say one to five minutes in their records, and Go's resolver keeps that to
	// itself.
	{
		path: "access.dns_ttl", kind: kindDuration, def: "2m", min: "1s", max: "24h", zero: "looking it up for each connection",
		doc: "how long the address of a host is kept; 0 = look it up for each connection",
	},
	{
		path: "access.ipv4", kind: kindBool, def: "false", flag: "ipv4", short: "4",
		doc: "connect over IPv4 only",
	},
	{
		path: "access.ipv6", kind: kindBool, def: "false", flag: "ipv6", short: "6",
		doc: "connect over IPv6 only",
	},
}

// hostAccess are the keys of a rule for hosts that say who we are there.
var hostAccess = []field{
	{
		path: "headers", kind: kindList,
		doc: `headers for its requests, "Name: value", over those of fetch.headers; empty = none`, example: "X-Api-Key: ${API_KEY}",
		check: header, redact: redactHeader,
	},
	{
		path: "auth", kind: kindText,
		doc: `credentials, "user:password" or "bearer TOKEN"; empty = those of access.auth or access.netrc`, example: "reader:${READER_PASSWORD}",
		check: auth, redact: redactAuth,
	},
	{
		path: "proxy", kind: kindText,
		doc: "proxy, or direct for none; empty = access.proxy", example: "direct",
		check: hostProxy, redact: redactProxy,
	},
	{
		path: "cert", kind: kindText,
		doc: "PEM file of the client certificate; empty = access.cert", example: "client.pem",
		check: noStream,
	},
	{
		path: "key", kind: kindText,
		doc: "PEM file of its key; empty = in the file of the certificate", example: "client.key",
		check: noStream,
	},
}
