// Package access has what requests to single hosts carry besides what all requests carry, and how they are sent: header
// fields, credentials, a proxy, a client certificate.
//
// A [Table] is built once, of [Rule]s, of which the first that matches a host applies, and of [Login]s: those given for
// this crawl, which take precedence over the rules, and those of a netrc file, which come last. It is immutable, and
// lookups do not allocate. It does not decide where credentials may be sent; the sender of the request does.
//
// The Parse functions parse what users write. Their errors tell the user what to write, and never repeat a secret.
package access
