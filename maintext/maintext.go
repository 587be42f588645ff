// Package maintext brings what finds the main text of pages and writes it as Markdown (Page.MainText, Page.Markdown, and the
// words main-text and markdown of OutputOptions.Record): ports of Mozilla's Readability and of a converter to Markdown. It
// has no names of its own; import it for that effect:
//
//	import _ "github.com/treadlight/crawl/maintext"
//
// A program that does not, and asks for either, gets an error that says so. It adds about six modules to a program.
package maintext

import _ "github.com/treadlight/crawl/internal/web/readable" // registers itself
