// Package sitemap reads the lists of URLs that sites publish for crawlers and feed readers.
//
// [Read] takes a document whole and yields an [Entry] for each URL in it, in the order of
// the document, and at the end a [Summary] of what it was. It knows urlset and sitemapindex
// of the Sitemaps protocol with the extensions for images, videos and languages; RSS 0.9x,
// 1.0 and 2.0; Atom; and text with one URL in a line. Each may be compressed with gzip, be
// in any encoding of the web, and use any namespace prefix or none.
//
// [Detect] tells whether something that was fetched as a page is one of them, by its root
// element, and is cheap for all that is not.
//
// # It takes what is there
//
// A document that is broken is read as far as it can be, and further: tags need not be
// balanced, "&" need not be escaped, a tag without an end stops at the next, URLs may be
// relative. What is wrong is counted, and the first of it told with its line. An entry is
// yielded only when the tag behind its URL has been read, so that of a document that was
// cut off the entries are the first of the whole.
//
// The protocol wants the URLs of a sitemap to lie below the sitemap's own directory, lest
// one user of a host speak for another. Nothing of that is looked at here: who may name
// what is for the caller to decide, who has a scope.
//
// # Bounds
//
// At most [MaxBytes] are read, counted after decompression, and [MaxURLs] entries besides
// the alternates and resources among them, of which there may be [MaxExtras]. A name, a tag
// or a text beyond 64 KiB is passed over. Nothing is recursive and nothing is expanded: of
// entities only the five of XML and those by number are known, so a document that declares
// others gets them back as they were written. Memory is two windows of 128 KiB and one
// entry, whatever the document.
//
// # Why a scanner of our own
//
// encoding/xml wants documents to be well formed, which sitemaps often are not, and its
// tokenizer alone takes a quarter to a half longer than all that is done here, with 25
// allocations for each that is made here (BenchmarkRead has both).
//
// Nothing here reads a clock, waits or does I/O, and all of it may be called by any number
// of goroutines.
package sitemap
