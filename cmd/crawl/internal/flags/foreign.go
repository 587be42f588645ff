package flags

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/fetch/redact"
)

// foreign is what crawl has in place of some flags of other programs that ask for the same.
type foreign struct {
	theirs string // the names, in words; one with a hyphen before it is a letter, or a word behind one hyphen
	here   string // the name of the flag that does the same here; "" if none does
	says   string // what does it then, as a sentence without its full stop
}

// foreigners are flags of wget, curl, HTTrack, Scrapy, Katana, muffet and grep that people try. A guess by spelling
// would be wrong for most of them.
var foreigners = []foreign{
	// What is crawled.
	{theirs: "level max-depth depth-limit -l", here: "depth"},
	{theirs: "recursive -r", says: "a crawl follows links without it, as far as --depth allows"},
	{theirs: "limit pages max-requests max-urls closespider-pagecount", here: "max-pages"},
	{theirs: "accept accept-regex allow extension-match ext crawl-scope -A", here: "include"},
	{theirs: "reject reject-regex deny exclude-domains exclude-ext extension-filter crawl-out-scope -R", here: "exclude"},
	{theirs: "no-parent -np", says: "--scope prefix stays below the directory of the URL"},
	{theirs: "span-hosts follow-external external-links", says: "--scope any follows links to other sites, and 'crawl audit --external' checks them"},
	{theirs: "subdomain subdomains include-subdomains stay-on-same-domain field-scope -fs", says: "--scope domain takes in all hosts of a domain"},
	{theirs: "domains allowed-domains -D", says: "--scope domain takes in all hosts of a domain, and --scope any with --include REGEXP several domains"},
	{theirs: "url -u", says: "URLs stand behind the flags, without one of their own; a user and a password are --auth HOST=user:password"},
	{theirs: "list file urls url-file input-list", here: "input-file"},
	{theirs: "sitemap known-files", says: "robots.txt and sitemaps are read without it; to visit only what a sitemap lists: -d 1 and its URL"},
	{theirs: "execute -e", says: "--no-robots leaves robots.txt out, for servers of your own"},
	{theirs: "nofollow", says: "links with rel=nofollow are left out; --set robots.follow_nofollow=true follows them"},
	{theirs: "headless js js-crawl javascript chrome system-chrome -jc -hl", says: "--render auto has Chromium run the scripts of pages"},
	{theirs: "max-size max-filesize", says: "--set fetch.skip_larger=10MiB skips larger files"},

	// How fast.
	{theirs: "rps max-rps rate-limit requests-per-second connection-per-second -rl", here: "max-rate"},
	{theirs: "rate-limit-minute -rlm", says: "--max-rate takes fractions: 0.5 is 30 a minute"},
	{theirs: "limit-rate", says: "--set ratelimit.global_bytes=1MiB is for bytes per second, and --max-rate for requests"},
	{theirs: "wait download-delay -w", here: "min-delay"},
	{theirs: "random-wait", says: "a host is asked as fast as it tolerates; --min-delay sets a least time between two requests"},
	{theirs: "parallel parallelism jobs threads workers sockets max-connections", here: "concurrency"},
	{theirs: "quota -Q", says: "--max-pages and --max-time end a crawl"},
	{theirs: "tries -t", here: "retries"},
	{theirs: "waitretry retry-delay", says: "--set ratelimit.retry_base_delay=1s sets the wait before a retry"},
	{theirs: "connect-timeout read-timeout dns-timeout -T", here: "timeout"},

	// Requests.
	{theirs: "user password http-user http-password basic-auth auth-user", says: "--auth HOST=user:password logs in"},
	{theirs: "token bearer oauth2-bearer", says: "--auth 'HOST=bearer TOKEN' sends a token"},
	{theirs: "cookie -b", says: "-H 'Cookie: NAME=VALUE' sends one, and --cookie-file those of a browser"},
	{theirs: "load-cookies", here: "cookie-file"},
	{theirs: "save-cookies cookie-jar", says: "--set access.cookies=true keeps cookies during a crawl; --cookie-file has some to start with"},
	{theirs: "referer", says: "-H 'Referer: URL' sends it"},
	{theirs: "lang language accept-language", says: "-H 'Accept-Language: de' asks for pages in that language"},
	{theirs: "agent useragent", here: "user-agent"},
	{theirs: "request data post-data -X", says: "pages are requested by GET; --login FILE sends the form of a login"},
	{theirs: "compressed", says: "responses come compressed without it"},
	{theirs: "location -L", says: "redirects are followed without it"},
	{theirs: "max-redirs max-redirect", says: "--set fetch.max_redirects=N sets how many are followed in a row"},
	{theirs: "no-check-certificate", here: "insecure"},
	{theirs: "ca-certificate cacert", says: "--set access.ca_file=FILE trusts the authorities in that file"},
	{theirs: "certificate", says: "--set access.cert=FILE sends a client certificate"},
	{theirs: "socks5 socks -x", here: "proxy"},
	{theirs: "proxy-user proxy-password", says: "--proxy http://user:password@HOST:PORT has both"},

	// What is written.
	{theirs: "output-document output-file output-dir directory-prefix -O -P", here: "output"},
	{theirs: "output-format", here: "format"},
	{theirs: "json jsonl -j", says: "records are lines of JSON unless --format or the ending of --output says otherwise"},
	{theirs: "csv", says: "--format csv, or -o FILE.csv, writes a table"},
	{theirs: "pdf", says: "--render always --step pdf --screenshot DIR prints pages; 'crawl mirror --keep application/pdf -o DIR URL' downloads PDF files"},
	{theirs: "graph edges", says: "records have the links of each page: -o FILE.jsonl and jq make a list of edges"},
	{theirs: "mail email notify", says: "--webhook URL posts each change; cron mails what --once prints"},
	{theirs: "markdown", says: "--format markdown -o DIR writes a file for each page, and 'crawl read URL' prints one page"},
	{theirs: "warc-file", here: "warc"},
	{theirs: "mirror convert-links page-requisites adjust-extension timestamping -m -p -E -N", says: "'crawl mirror -o DIR URL' does that by itself"},
	{theirs: "no-clobber -nc", says: "a file that exists is replaced by --overwrite alone"},
	{theirs: "continue resume", says: "'crawl resume DIR' goes on with a crawl that -o DIR/ has kept"},
	{theirs: "update", says: "'crawl again DIR' visits what has changed, and 'crawl mirror' renews a copy"},
	{theirs: "spider", says: "'crawl audit URL' finds broken links, and -d 0 -i FILE checks a list of URLs"},
	{theirs: "duration for max-duration closespider-timeout", here: "max-time"},
	{theirs: "since newer-than", says: "'crawl again DIR' and 'crawl watch DIR URL' ask for what has changed"},
	{theirs: "schedule cron", says: "'crawl watch DIR URL' visits again and again, and cron starts 'crawl again DIR' or 'crawl resume DIR'"},
	{theirs: "dry-run", says: "'crawl plan URL' looks at a site first"},
	{theirs: "grep search find contains", says: "--item page --field url=page --field found=re:REGEXP finds the pages with a text"},
	{theirs: "match match-regex filter-regex", says: "--include REGEXP and --exclude REGEXP are for URLs, --field NAME=re:REGEXP for texts"},
	{theirs: "selector css xpath regex extract", says: "--field NAME=css:SELECTOR takes a value out of pages; xpath: and re: do too"},

	// Messages and settings.
	{theirs: "silent -s -nv", here: "quiet"},
	{theirs: "debug", here: "verbose"},
	{theirs: "loglevel", says: "--quiet and --verbose say how much is told, and --set log.level=LEVEL more exactly"},
	{theirs: "log-file logfile", says: "messages go to standard error: 2> FILE"},
	{theirs: "settings", here: "config"},
	{theirs: "dashboard ui web port", says: "--listen 8091 shows the crawl at http://127.0.0.1:8091/"},
}

// instead says what to write in place of a flag of another program, as a sentence that begins with a semicolon. Of
// several spellings of the flag, each as foreign.theirs has it, the first that is known counts. It returns "" if none
// is, or if cmd has nothing of the kind.
func instead(cmd *cobra.Command, spellings ...string) (known, says string) {
	for _, theirs := range spellings {
		i := slices.IndexFunc(foreigners, func(f foreign) bool { return slices.Contains(strings.Fields(f.theirs), theirs) })
		switch {
		case i < 0:
		case foreigners[i].here != "" && cmd.Flags().Lookup(foreigners[i].here) != nil:
			return theirs, "; here it is --" + foreigners[i].here
		case foreigners[i].says != "" && cmd.Flags().Lookup("max-rate") != nil && hasAll(cmd, foreigners[i].says): // it crawls
			return theirs, "; " + foreigners[i].says
		}
	}
	return "", ""
}

// hasAll reports whether cmd has all flags that a text names outside of quotes.
func hasAll(cmd *cobra.Command, text string) bool {
	text = regexp.MustCompile(`'[^']*'`).ReplaceAllString(text, "")
	for _, named := range regexp.MustCompile(`(?:^|\s)(--?[a-zA-Z-]+)`).FindAllStringSubmatch(text, -1) {
		if flagOf(cmd.Flags(), named[1]) == nil {
			return false
		}
	}
	return true
}

// foreignCommands says what does here what people try as a command, as a sentence without its full stop.
var foreignCommands = map[string]string{
	"compare":  "'crawl again DIR' tells what has changed since a crawl, and 'crawl watch DIR URL' from day to day",
	"diff":     "'crawl again DIR' tells what has changed since a crawl, and 'crawl watch DIR URL' from day to day",
	"continue": "'crawl resume DIR' goes on with a crawl that -o DIR/ has kept",
	"update":   "'crawl again DIR' visits what has changed, and 'crawl mirror' renews a copy",
	"archive":  "-o NAME.warc.gz writes an archive, and --warc DIR archives beside the records",
	"copy":     "'crawl mirror -o DIR URL' makes a copy that opens without a network",
	"clone":    "'crawl mirror -o DIR URL' makes a copy that opens without a network",
	"download": "'crawl mirror -o DIR URL' makes a copy of a site, and --keep TYPES of some files alone",
	"get":      "'crawl read URL' prints the text of a page, and 'crawl -d 0 URL' a record of it",
	"fetch":    "'crawl read URL' prints the text of a page, and 'crawl -d 0 URL' a record of it",
	"grep":     "'crawl --item page --field url=page --field found=re:REGEXP URL' finds the pages with a text",
	"search":   "'crawl --item page --field url=page --field found=re:REGEXP URL' finds the pages with a text",
	"extract":  "'crawl --field NAME=css:SELECTOR URL' takes values out of pages, and 'crawl try' shows what matches",
	"markdown": "'crawl read URL' prints the main text of a page as Markdown, and --format markdown -o DIR/ writes that of a site",
	"links":    "'crawl audit URL' finds broken links; records have the links of each page",
	"lint":     "'crawl audit URL' looks for what is wrong with a site",
	"validate": "'crawl audit URL' looks for what is wrong with a site",
	"sitemap":  "'crawl -o sitemap.txt URL' writes the URLs of a site, which is a sitemap too",
	"serve":    "--listen 8091 shows a crawl in a browser, and 'crawl mirror -o DIR --serve' a copy",
	"run":      "URLs need no command: 'crawl https://example.com/'",
	"start":    "URLs need no command: 'crawl https://example.com/'",
	"crawl":    "URLs need no command: 'crawl https://example.com/'",
}

// nearCommand says what was probably meant by a word that is neither a URL nor a command, as the end of an error; "" if
// nothing is known.
func nearCommand(root *cobra.Command, word string) string {
	if says := foreignCommands[strings.ToLower(word)]; says != "" {
		return "; " + says
	}
	return cli.Meant(NearestCommand(root, word))
}

// URLInPlace returns a usage error if arg is a URL, for a command that takes a file or a directory; instead says what
// takes a URL.
func URLInPlace(arg, instead string) error {
	if !strings.HasPrefix(arg, "http://") && !strings.HasPrefix(arg, "https://") {
		return nil
	}
	return cli.Usagef("%s is a URL: %s", redact.URL(arg), instead)
}
