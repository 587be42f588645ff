// Package realserver runs the web servers people run, with the limits people set, for
// tests of politeness: nginx, HAProxy, Apache httpd, Varnish and a Python application.
//
// A [Kind] describes a server and the rule it enforces; [Kinds] lists them and
// [Kind.Start] runs one of them on a loopback port of its own, with a directory of its
// own and none of the system's configuration. Every URL of the form [Server.Page] is a
// page of its own to a crawler and the same small page to the server, so the work is
// endless and weighs nothing: what is left is the limit.
//
// A server's own access log is the witness. [Server.Hits] reads it, and [Measure] says
// what share of the available rate was used, what share was refused, how often the
// server shut its door and how many requests came while a Retry-After ran.
//
// [Nginx] serves a directory instead, for whoever wants real documents, and [HAProxy] passes
// on what another serves.
//
// Servers end with their test and are waited for. A Server is for one goroutine; two
// servers have nothing in common. Nothing here looks beyond loopback.
package realserver
