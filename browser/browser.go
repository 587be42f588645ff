// Package browser has pages rendered by Chromium before they are read (Options.Render). It has no names of its own; import
// it for that effect:
//
//	import _ "github.com/treadlight/crawl/browser"
//
// A program that does not, and asks for it, gets an error that says so. It adds two modules to a program. Chromium itself is
// looked for where it is usually installed.
package browser

import _ "github.com/treadlight/crawl/internal/render" // registers itself
