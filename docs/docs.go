// Package docs holds the pages of the documentation and the files that they show, for `crawl docs`.
package docs

import "embed"

// Files are the pages by their paths, such as how-to/install.md. README.md is the first.
//
//go:embed *.md */*.md images reference/api.txt
var Files embed.FS
