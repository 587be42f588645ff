// Package console is the endpoint by which people and programs see and steer a crawl that
// runs: health for whoever keeps the process alive, the [pipeline.Snapshot] as JSON, what
// is known of one host, the events of the limiter as a stream, metrics for Prometheus, and
// orders such as "pause", "block this host" or "follow these links alone".
//
// A [Console] is built over the functions of a [Crawl] and is an http.Handler;
// [Console.Serve] serves it on a socket until its context ends, and leaves nothing running.
// It holds no state of the crawl but a bounded history for the pages, see package dashboard,
// and the last snapshot, for a tenth of a second and up to ten
// times of what it took, so that many who look cost what one does.
//
// # The way of a request
//
// Every request is judged first, by its headers alone, and the verdict decides what it
// costs before it decides whether it is let in:
//
//	Host       the listening address or a loopback name, else 421: a page whose name was
//	           rebound to this address says its own name here
//	origin     not from another site's page, else 403
//	token      the bearer token if there is one, or the cookie that its form has given, else
//	           401, and the form for a person who wants a page; not for health
//	admission  429: so many reads and orders for each client. Who fails one of the three
//	           above has an account of its own, so that neither a page in the owner's
//	           browser nor a neighbour who guesses can use up what the owner has, and pays
//	           several times for a wrong token
//	content    an order is application/json, else 415, which no form of a page can send
//	           without asking first; the login is a form, and costs what a wrong token does
//
// Refusals are counted by reason and logged with who asked for what; so is every order. Of
// a flood of refusals some are logged, with the number of those left out.
//
// # What it does not do
//
// It speaks no TLS: a token on a network that others share needs a proxy that does. It
// has no users: whoever has the token, or without one may open a loopback socket, may do
// everything.
package console
