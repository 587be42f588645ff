// Package dashboard turns the state of a crawl into pages for a browser: the overview, one
// host, and the form that asks for the token.
//
// It draws and knows nothing: [Pages] renders an [Overview], a [Host] or a [Login] that
// package console has filled in, and [Pages.Asset] has the style and the script. Pages are
// whole without script. With it they ask for themselves once a second and put in place what
// is marked data-live, so that there is one way in which anything is drawn.
//
// All texts of a page may be those of a stranger: a host chooses its name, its URLs, titles
// and errors. They reach a page through html/template alone, no value is of a type that it
// takes for safe, and [Policy] has a browser run and load nothing but the two files here.
//
// A [Chart] is an SVG that stretches to its box, with its figures beside it as text, and a
// sentence for those who do not see it. Nothing here has state; all may be used
// concurrently.
package dashboard
