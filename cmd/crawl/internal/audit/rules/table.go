package rules

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// Thresholds of the rules. Titles and descriptions are cut in lists of results at about these lengths.
const (
	longTitle       = 70  // characters
	longDescription = 160 // characters
	longHeading     = 70  // characters
	thinWords       = 100
	deepClicks      = 5
	chainHops       = 2
	heavyHTML       = 1 << 20   // bytes
	heavyImage      = 300 << 10 // bytes
	heavyPage       = 4000 << 10
	slowMillis      = 1000
)

// The groups of rules.
const (
	groupLinks     = "Links"
	groupRedirects = "Redirects"
	groupTexts     = "Titles, descriptions and headings"
	groupCanonical = "Canonical URLs"
	groupLanguages = "Languages"
	groupRobots    = "Robots and indexing"
	groupSitemaps  = "Sitemaps"
	groupContent   = "Content"
	groupWeight    = "Weight and time"
	groupSecurity  = "Security"
)

// Table lists all rules, in the order of the reports.
var Table = []Rule{
	{"broken-link", groupLinks, "Broken link", Error, "a page of the site that others link to is not there (404, 410, another 4xx that is no refusal), or its host does not exist, refuses connections, or has no valid certificate", "correct the links on the pages that are named, or redirect the URL to what took its place", on(ownPages, is(broken))},
	{"broken-resource", groupLinks, "Broken image, script or style", Error, "what a page is made of is not there", "correct the reference, or put the file back", on(ownParts, is(broken))},
	{"server-error", groupLinks, "Server error", Error, "a URL of the site is answered with 5xx, after retries", "look into the log of the server", on(own, is(failing))},
	{"no-answer", groupLinks, "No usable answer", Warning, "a URL of the site does not answer in time, or with something that is no HTTP, breaks off or cannot be decoded; whether it is there cannot be told", "try it by hand; raise --timeout if it is slow", on(own.where(func(r *row) bool { return r.page.Status < 400 }), is(unclear))},
	{"link-unclear", groupLinks, "Link to a refusal", Notice, "a URL of the site is answered with 401, 403, 405, 406, 429, 451 or 999: it is there for some, or not", "leave out links that readers cannot follow, or give --auth or --cookie-file", on(own.where(func(r *row) bool { return r.page.Status >= 400 }), is(unclear))},
	{"broken-fragment", groupLinks, "Broken fragment", Warning, "a link names a place in a page that has no element with that id or name; not of routes of scripts (#/ and #!), #top and text fragments", "correct the fragment, or give the element its id", brokenFragments},
	{"external-broken", groupLinks, "Broken link to another site", Error, "with --external: the page is not there (404, 410, another 4xx that is no refusal), or its host does not exist, refuses connections, has a certificate for another name, or redirects in a circle", "correct or remove the link", on(external, ends(broken))},
	{"external-failing", groupLinks, "Failing link to another site", Warning, "with --external: the answer is 5xx, after retries", "try it later, and remove the link if it stays so", on(external, ends(failing))},
	{"external-unclear", groupLinks, "Link to another site that cannot be checked", Notice, "with --external: the answer is 401, 403, 405, 406, 429, 451 or 999, a wall against robots, or did not come in time, or robots.txt forbids it", "try it by hand; nothing says that it is broken", on(external, ends(unclear|forbidden))},
	{"malformed-link", groupLinks, "Malformed link", Error, "a link begins like a web address and is none, such as http:/// or htp://", "correct the link", noted("malformed-link", "links")},
	{"local-link", groupLinks, "Link to the own machine", Error, "a page links to localhost, a loopback address or a file: URL", "link to the public address", noted("local-link", "links")},
	{"link-without-text", groupLinks, "Link without text", Notice, "a link has neither text nor an image with a description, a title or a label, nor is it beside one with text to the same place: nobody who cannot see it knows where it leads", "give it text, or an aria-label", noted("link-without-text", "links")},

	{"redirect-loop", groupRedirects, "Redirects in a circle", Error, "redirects lead back to where they came from", "have one of them lead to a page", redirectLoops},
	{"redirect-chain", groupRedirects, "Chain of redirects", Warning, "two redirects or more in a row", "link and redirect to the last URL at once", on(usedRedirects, func(r *row) (string, bool) {
		way, loop := r.follow()
		return fmt.Sprintf("%d redirects: %s", len(way)-1, strings.Join(urls(way), " → ")), len(way) > chainHops && !loop
	})},
	{"redirect-link", groupRedirects, "Link to a permanent redirect", Notice, "pages link to a URL that is answered with 301 or 308", "link to the new URL", on(usedRedirects, func(r *row) (string, bool) {
		permanent := r.page.Status == http.StatusMovedPermanently || r.page.Status == http.StatusPermanentRedirect
		return fmt.Sprintf("%d to %s", r.page.Status, r.to.url), permanent && r.to.to == nil && r.refs.n > 0
	})},
	{"meta-refresh", groupRedirects, "Redirect by meta refresh", Notice, "a page sends readers elsewhere by meta refresh", "redirect by a status of 301 or 302", on(pages, func(r *row) (string, bool) {
		return "to " + r.html().Refresh, r.html().Refresh != "" && r.html().Refresh != r.url
	})},

	{"title-missing", groupTexts, "No title", Warning, "an indexable page has no title, or an empty one", "give it a title of its own", on(indexable, func(r *row) (string, bool) {
		if len(r.html().Titles) == 0 {
			return "it has no title element", r.html().Found["title-misplaced"].N == 0
		}
		return "the title is empty", strings.Join(r.html().Titles, "") == ""
	})},
	{"title-multiple", groupTexts, "Several titles", Warning, "the head has more than one title", "leave one", several(titles)},
	{"title-misplaced", groupTexts, "Title outside of the head", Warning, "a title element stands in the body, as behind an element that ends the head", "move it into the head", noted("title-misplaced", "titles")},
	{"title-duplicate", groupTexts, "Title of several pages", Warning, "other indexable pages that are no translations have the same title", "say in each title what is on the page", shared(titles, nil)},
	{"title-long", groupTexts, "Long title", Notice, "a title has more than 70 characters: lists of results cut it", "put what matters first, and shorten it", long(titles, longTitle)},
	{"description-missing", groupTexts, "No description", Notice, "an indexable page has no meta description; told once for a host if nearly all lack it", "say in a sentence or two what is on the page", lacking(indexable, func(r *row) bool { return strings.Join(r.html().Descriptions, "") == "" })},
	{"description-multiple", groupTexts, "Several descriptions", Warning, "a page has more than one meta description", "leave one", several(descriptions)},
	{"description-duplicate", groupTexts, "Description of several pages", Warning, "other indexable pages that are no translations have the same description", "describe each page, or none", shared(descriptions, nil)},
	{"description-long", groupTexts, "Long description", Notice, "a description has more than 160 characters", "shorten it", long(descriptions, longDescription)},
	{"h1-missing", groupTexts, "No h1", Notice, "an indexable page has no h1, or an empty one; told once for a host if nearly all lack it", "give the page a heading", lacking(indexable, func(r *row) bool { return strings.Join(r.html().Headings, "") == "" && !r.html().Empty })},
	{"h1-multiple", groupTexts, "Several h1", Notice, "a page has more than one h1", "make the others h2", several(headings)},
	{"h1-duplicate", groupTexts, "h1 of several pages", Notice, "other indexable pages that are no translations have the same first h1, and another title", "say in each heading what is on the page", shared(headings, titles)},
	{"h1-long", groupTexts, "Long h1", Notice, "an h1 has more than 70 characters", "shorten it", long(headings, longHeading)},

	{"canonical-broken", groupCanonical, "Canonical URL is broken", Error, "the canonical URL of a page is answered with an error", "name the URL of a page that is there", on(elsewhere, leads(broken|failing))},
	{"canonical-conflict", groupCanonical, "Several canonical URLs", Warning, "the page and its header name different canonical URLs", "leave one", on(pages, func(r *row) (string, bool) {
		var raw []string
		for _, l := range r.html().Canonicals {
			raw = append(raw, l.Raw+" ("+l.By+")")
		}
		return strings.Join(raw, ", "), conflicting(r.html())
	})},
	{"canonical-redirect", groupCanonical, "Canonical URL redirects", Warning, "the canonical URL of a page is a redirect", "name the URL where it leads", on(elsewhere, leads(moved))},
	{"canonical-chain", groupCanonical, "Chain of canonical URLs", Warning, "the canonical URL of a page names another one as its own", "name the last one at once", on(elsewhere, leads(renamed))},
	{"canonical-noindex", groupCanonical, "Canonical URL is not indexable", Warning, "the canonical URL of a page is noindex, or robots.txt forbids it", "let it be indexed, or name another one", on(elsewhere, leads(hidden|forbidden))},
	{"canonical-invalid", groupCanonical, "Canonical URL is none", Warning, "a canonical link is empty, no web address, or has a fragment", "write the whole URL", noted("canonical-invalid", "links")},
	{"canonical-misplaced", groupCanonical, "Canonical link outside of the head", Warning, "a canonical link stands in the body, where it is ignored", "move it into the head", noted("canonical-misplaced", "links")},
	{"canonical-root", groupCanonical, "Canonical URL is the home page", Warning, "a page with another title than the home page names that as its canonical URL", "name the page itself", on(elsewhere, func(r *row) (string, bool) {
		h := r.target.html()
		return fmt.Sprintf("the page is %q", cmp.Or(r.html().Titles...)), h != nil && r.ref.URL == r.origin()+"/" && !home().MatchString(r.url) && cmp.Or(h.Titles...) != cmp.Or(r.html().Titles...)
	})},
	{"canonical-insecure", groupCanonical, "Canonical URL without encryption", Warning, "the canonical URL of an https page is http", "write https", on(elsewhere, func(r *row) (string, bool) {
		return r.ref.URL, strings.HasPrefix(r.url, "https://") && strings.HasPrefix(r.ref.URL, "http://")
	})},
	{"canonical-relative", groupCanonical, "Relative canonical URL", Notice, "a canonical link is relative: copies of the page on other hosts would name themselves", "write the whole URL", noted("canonical-relative", "links")},

	{"hreflang-broken", groupLanguages, "Translation is broken", Error, "a page names a translation that is answered with an error", "correct the URL, or remove it", on(languages, leads(broken|failing))},
	{"hreflang-code", groupLanguages, "Code of no language", Error, "a code is no language (ISO 639-1), with or without script and region (ISO 3166-1), nor x-default", "correct the code, such as en-GB for en-UK", on(languages, func(r *row) (string, bool) { fault := codeFault(r.code); return fault, fault != "" })},
	{"hreflang-return", groupLanguages, "Translation does not link back", Warning, "a page names a translation which does not name the page: search engines ignore both", "have all translations name all", on(languages, func(r *row) (string, bool) {
		to := r.target
		return r.ref.URL + " does not name " + r.url, to != r.node && to.indexable() && !to.page.Cut && !to.variants && !translates(to.html(), r.url)
	})},
	{"hreflang-target", groupLanguages, "Translation is not indexable", Warning, "a page names a translation that redirects, is noindex, has another canonical URL, or is forbidden by robots.txt", "name the canonical, indexable URL", on(languages, leads(moved|forbidden|hidden|renamed|sending))},
	{"hreflang-self", groupLanguages, "Page does not name itself", Warning, "a page names translations and is not among them", "add the page itself", on(indexable, func(r *row) (string, bool) {
		return "it names " + cli.Plural(len(r.html().Languages), "other"), len(r.html().Languages) > 0 && !r.variants && !translates(r.html(), r.url)
	})},
	{"hreflang-conflict", groupLanguages, "Two pages of one language", Warning, "a page names different URLs for one code", "leave one", on(languages, hreflangConflict)},
	{"hreflang-relative", groupLanguages, "Relative URL of a translation", Warning, "a translation is named by a relative URL, which search engines ignore", "write the whole URL", on(languages, func(r *row) (string, bool) { return strconv.Quote(r.ref.Raw), !facts.Absolute().MatchString(r.ref.Raw) })},
	{"lang-mismatch", groupLanguages, "Language contradicts itself", Notice, "the lang attribute of a page is another language than its own hreflang", "correct one of them", on(pages, langMismatch)},
	{"lang-missing", groupLanguages, "No language", Notice, "the html element has no lang attribute, and screen readers guess; told once for a host if nearly all lack it", "add lang, such as lang=\"en\"", lacking(indexable, func(r *row) bool { return r.html().Lang == "" && !r.html().Empty })},

	{"robots-invalid", groupRobots, "Fault in robots.txt", Warning, "a line that no crawler obeys: an unknown name, a pattern that begins with neither / nor *, a $ that is not at the end, a rule before the first user-agent, a sitemap that is no URL, noindex", "correct the line", robotsInvalid},
	{"robots-conflict", groupRobots, "Contradictory directives", Warning, "meta robots and X-Robots-Tag say both index and noindex", "leave one", noted("robots-conflict", "conflicts")},
	{"noindex-canonical", groupRobots, "noindex with another canonical URL", Warning, "a page is noindex and names another page as canonical: one says forget me, the other take that for me", "remove noindex, or the canonical link", on(elsewhere, func(r *row) (string, bool) {
		return "it is noindex, and " + r.ref.URL + " is its canonical URL", r.html().NoIndex
	})},
	{"blocked-resource", groupRobots, "Resource that robots.txt forbids", Warning, "robots.txt forbids an image, script or style: search engines cannot see the page as readers do", "allow it", on(ownParts, is(forbidden))},
	{"blocked-link", groupRobots, "Link that robots.txt forbids", Notice, "pages link to a URL that robots.txt forbids", "allow it, or leave it so if that is meant", on(ownPages, is(forbidden))},
	{"noindex", groupRobots, "Page that is not to be indexed", Notice, "a page that others link to is noindex", "leave it so if that is meant", on(pages, func(r *row) (string, bool) { return "", r.html().NoIndex && r.linked })},

	{"sitemap-broken", groupSitemaps, "Sitemap lists what is broken", Error, "a URL of a sitemap is answered with an error", "remove it", on(listed, is(broken|failing))},
	{"sitemap-unreadable", groupSitemaps, "Sitemap cannot be read", Error, "a sitemap that robots.txt or another sitemap names is answered with an error, or is none", "correct the name or the file", on(sitemaps, func(r *row) (string, bool) {
		if r.state() == fine && len(r.page.Problems) > 0 {
			return r.page.Problems[0], len(r.links) == 0
		}
		return r.has(broken | failing | unclear)
	})},
	{"sitemap-invalid", groupSitemaps, "Fault in a sitemap", Warning, "a sitemap has URLs that are none, other faults, or more than 50,000 URLs or 50 MiB", "correct it", on(sitemaps, func(r *row) (string, bool) {
		return strings.Join(r.page.Problems, "; "), len(r.links) > 0 && len(r.page.Problems) > 0
	})},
	{"sitemap-redirect", groupSitemaps, "Sitemap lists a redirect", Warning, "a URL of a sitemap redirects", "list where it leads", on(listed, is(moved))},
	{"sitemap-noindex", groupSitemaps, "Sitemap lists what is not to be indexed", Warning, "a URL of a sitemap is noindex, or names another canonical URL", "remove it from the sitemap, or let it be indexed", on(listed, is(hidden|renamed|sending))},
	{"sitemap-blocked", groupSitemaps, "Sitemap lists what robots.txt forbids", Warning, "robots.txt forbids a URL of a sitemap", "allow it, or remove it", on(listed, is(forbidden))},
	{"sitemap-foreign", groupSitemaps, "Sitemap lists another host", Warning, "a URL of a sitemap is on a host to which the site does not belong", "list it in a sitemap of that host", on(listed, func(r *row) (string, bool) { return "", r.state() == unknown && !r.host[r.origin()] })},
	{"orphan", groupSitemaps, "Page that nobody links to", Warning, "a page is in a sitemap, and no page links to it; not looked for if the crawl was cut off", "link to it, or remove it", on(listed, func(r *row) (string, bool) {
		return "", r.state() == fine && !r.Partial && !r.linked && r.depth != 0
	})},
	{"sitemap-missing", groupSitemaps, "Page in no sitemap", Notice, "an indexable page is in none of the sitemaps that there are", "add it", on(unmapped, func(*row) (string, bool) { return "", true })},

	{"page-empty", groupContent, "Empty page", Warning, "a page has neither text nor images, nor scripts that could make some", "fill it, or answer with 404", on(pages, func(r *row) (string, bool) {
		return cli.Plural(r.page.Size, "byte") + " of HTML", r.html().Empty && !r.page.Cut && (r.html().Refresh == "" || r.html().Refresh == r.url)
	})},
	{"soft-404", groupContent, "Error page with a status of 200", Warning, "a short page has a title or heading that says not found", "answer with 404", on(indexable, func(r *row) (string, bool) {
		title, heading := cmp.Or(r.html().Titles...), cmp.Or(r.html().Headings...)
		if !notFound().MatchString(title) {
			title = heading
		}
		return title, r.html().Words < 3*thinWords && notFound().MatchString(title)
	})},
	{"placeholder", groupContent, "Placeholder text", Warning, "a page has lorem ipsum", "write the text", noted("placeholder", "texts")},
	{"duplicate-page", groupContent, "The same page twice", Warning, "another indexable page is the same byte by byte", "redirect one to the other, or name one as canonical", repeated(neardup.Exact, "the same as ")},
	{"near-duplicate", groupContent, "Nearly the same page twice", Notice, "another indexable page that is no translation says nearly the same, by a fingerprint of its main text; not of thin pages", "merge them, or name one as canonical", repeated(neardup.Near, "nearly the same as ")},
	{"thin-page", groupContent, "Thin page", Notice, "the main element of an indexable page, or else its body, has fewer than 100 words outside of navigation and footer", "say more, or merge it with another page", on(indexable, func(r *row) (string, bool) {
		return cli.Plural(r.html().Words, "word"), r.html().Words < thinWords && !r.html().Empty
	})},
	{"alt-missing", groupContent, "Image without a description", Warning, "an image has no alt attribute; one that is only decoration has an empty one", "describe it in alt", noted("alt-missing", "images")},
	{"jsonld-invalid", groupContent, "Invalid JSON-LD", Warning, "a block of JSON-LD is no JSON", "correct it: the message says where", noted("jsonld-invalid", "blocks")},
	{"deep-page", groupContent, "Page far from the home page", Notice, "a page is more than 5 clicks from a seed", "link to it from nearer by", on(pages, func(r *row) (string, bool) {
		return fmt.Sprintf("%d clicks", r.depth), r.depth > deepClicks && !r.Partial
	})},

	{"slow-page", groupWeight, "Slow page", Warning, "the answer took more than 1 s and three times as long as half of the pages", "see what the server does there", on(pages, func(r *row) (string, bool) {
		return fmt.Sprintf("%.1f s; half of the pages take up to %.1f s", float64(r.page.Millis)/1000, float64(r.usual())/1000), r.page.Millis > max(slowMillis, 3*r.usual())
	})},
	{"slow-site", groupWeight, "Slow site", Warning, "half of the pages of a host took more than 1 s", "see what the server does", on(hosts, func(r *row) (string, bool) {
		return fmt.Sprintf("half of its pages take more than %.1f s", float64(r.usual())/1000), r.usual() > slowMillis
	})},
	{"heavy-html", groupWeight, "Heavy HTML", Warning, "the HTML of a page has more than 1 MiB", "split the page", on(pages, func(r *row) (string, bool) { return cli.Size(r.page.Size), r.page.Size > heavyHTML })},
	{"heavy-image", groupWeight, "Heavy image", Notice, "an image has more than 300 KiB", "compress or scale it", on(ownImages, func(r *row) (string, bool) { return cli.Size(r.page.Size), r.page.Size > heavyImage })},
	{"page-weight", groupWeight, "Heavy page", Notice, "a page and what it is made of have more than 4,000 KiB, as far as that is of the site", "load less, or later", on(pages, func(r *row) (string, bool) {
		weight := r.weight()
		return fmt.Sprintf("%s, of which the HTML has %s", cli.Size(weight), cli.Size(r.page.Size)), weight > heavyPage
	})},

	{"mixed-content", groupSecurity, "Mixed content", Error, "an https page loads something by http, which browsers refuse or mark", "load it by https", noted("mixed-content", "things")},
	{"insecure-form", groupSecurity, "Form without encryption", Warning, "a form of an https page is sent by http", "send it by https", noted("insecure-form", "forms")},
	{"not-encrypted", groupSecurity, "Site without encryption", Notice, "a public host answers by http without redirecting to https", "redirect to https", on(hosts, func(r *row) (string, bool) { return "", strings.HasPrefix(r.url, "http://") && !facts.Local(r.url) })},
	{"header-hsts", groupSecurity, "No Strict-Transport-Security", Notice, "https pages lack the header; told once for a host if nearly all do", "send it", lacking(pages, lacks("header-hsts"))},
	{"header-csp", groupSecurity, "No Content-Security-Policy", Notice, "pages lack the header, and a meta element in its place; told once for a host if nearly all do", "send one that says where scripts may come from", lacking(pages, lacks("header-csp"))},
	{"header-nosniff", groupSecurity, "No X-Content-Type-Options", Notice, "pages lack the header; told once for a host if nearly all do", "send nosniff", lacking(pages, lacks("header-nosniff"))},
	{"header-frame", groupSecurity, "No protection from frames", Notice, "pages have neither X-Frame-Options nor frame-ancestors in a policy; told once for a host if nearly all do", "send one of them", lacking(pages, lacks("header-frame"))},
	{"header-referrer", groupSecurity, "No Referrer-Policy", Notice, "pages lack the header, and a meta element in its place; told once for a host if nearly all do", "send it, such as strict-origin-when-cross-origin", lacking(pages, lacks("header-referrer"))},
}
