// Package access says what requests to a host carry besides what all carry, and which way
// they take: header fields, credentials, a proxy, a client certificate.
//
// A [Table] is built once, of [Rule]s of which the first that matches a host counts, and of [Login]s: those
// given for this crawl, which go before the rules, and those of a netrc file, which come last. It never changes,
// and asking it does not allocate. It decides nothing about trust: whoever sends looks where credentials may go.
//
// The Parse functions read what people write. Their errors say what to write, and never repeat a secret.
package access
