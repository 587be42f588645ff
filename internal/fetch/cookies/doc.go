// Package cookies keeps the cookies of a crawl, as RFC 6265 has it, within bounds.
//
// A [Jar] takes in what answers set and what a user brings from a browser (cookies.txt), and says what a request
// sends back. A cookie goes to the host that set it, or to the names below its domain if no registry hands out
// names there. What is marked secure neither goes over plain HTTP nor comes from there, and names that begin with
// __Host- and __Secure- mean what they say (RFC 6265bis section 4.1.3).
//
// Unlike net/http's, it has a bound for each site, in cookies and in bytes, and one for sites; it forgets the oldest
// cookie of a site, and the site asked longest ago. It is safe for concurrent use, and survives no process.
package cookies
