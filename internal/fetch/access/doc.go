// Package access says what requests to a host carry besides what all carry, and which way
// they take: header fields, credentials, a proxy, a client certificate.
//
// A [Table] is built once, of [Rule]s of which the first that matches a host counts, and of [Login]s: those that
// somebody gave for this crawl, which go before the rules, and those of a netrc file, which come last. It is asked
// for every request, in the time of a few map look-ups and without allocating, and never changes.
//
// The Parse functions read what people write: [CutLogin] and [ParseAuth], [ParseProxy],
// [ParseNetrc]. Their errors say what to write, and never repeat a secret. [Expand] puts
// variables of the environment into such texts, so that a file need not have the secret.
//
// It decides nothing about trust: whoever sends looks where credentials may go.
package access
