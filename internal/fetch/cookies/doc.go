// Package cookies keeps the cookies of a crawl, as RFC 6265 has it, within bounds.
//
// A [Jar] takes in what answers set ([Jar.Set]) and what a user brings from a browser ([Jar.Load], the cookies.txt
// that curl and wget read), and says what a request sends back ([Jar.Header]). A cookie goes to the host that set it,
// or to the names below a domain that the host is in and that no registry hands out names below (the public suffix
// list). What is marked secure neither goes over plain HTTP nor comes from there, and is not replaced from there
// either; names that begin with __Host- and __Secure- mean what they say (RFC 6265bis section 4.1.3).
//
// net/http's jar forgets only what has expired, so that a site may fill the memory with names that it makes up. This
// one has a bound for each site, counted in cookies and in bytes, and one for sites; it forgets the oldest cookie of
// a site, and the site asked longest ago. A session that is forgotten begins anew, as for any new visitor.
//
// A Jar is safe for concurrent use, and nothing in it survives the process.
package cookies
