package mirror

import (
	"net/http"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/mirror/rewrite"
)

// extensions are those of media types by which a browser that opens a file knows its type, the usual one first.
var extensions = map[string][]string{
	"text/html":                             {".html", ".htm"},
	"application/xhtml+xml":                 {".xhtml", ".xht"},
	"text/css":                              {".css"},
	"text/javascript":                       {".js", ".mjs", ".cjs"},
	"image/svg+xml":                         {".svg"},
	"image/png":                             {".png", ".apng"},
	"image/jpeg":                            {".jpg", ".jpeg", ".jpe", ".jfif"},
	"image/gif":                             {".gif"},
	"image/webp":                            {".webp"},
	"image/avif":                            {".avif"},
	"image/x-icon":                          {".ico", ".cur"},
	"application/manifest+json":             {".webmanifest", ".json"},
	"application/json":                      {".json", ".map", ".webmanifest"},
	"application/pdf":                       {".pdf"},
	"font/woff2":                            {".woff2"},
	"font/woff":                             {".woff"},
	"font/ttf":                              {".ttf"},
	"font/otf":                              {".otf"},
	"text/plain":                            {".txt"},
	"application/xml":                       {".xml", ".rss", ".atom", ".xsl", ".xslt", ".svg"},
	"application/rss+xml":                   {".rss", ".xml"},
	"application/atom+xml":                  {".atom", ".xml"},
	"application/wasm":                      {".wasm"},
	"video/mp4":                             {".mp4", ".m4v"},
	"video/webm":                            {".webm"},
	"audio/mpeg":                            {".mp3"},
	"audio/ogg":                             {".ogg", ".oga", ".opus"},
	"application/zip":                       {".zip"},
	"application/octet-stream":              {".bin"},
	"application/x-xpinstall":               {".xpi"},
	"application/opensearchdescription+xml": {".xml", ".osdx"},
}

// sameTypes are other names of types in extensions.
var sameTypes = map[string]string{
	"application/javascript": "text/javascript", "application/x-javascript": "text/javascript", "text/ecmascript": "text/javascript",
	"application/ecmascript": "text/javascript", "image/vnd.microsoft.icon": "image/x-icon", "image/ico": "image/x-icon", "image/jpg": "image/jpeg",
	"text/xml": "application/xml", "application/x-font-woff": "font/woff", "application/font-woff": "font/woff",
	"application/font-woff2": "font/woff2", "application/x-font-ttf": "font/ttf", "text/json": "application/json",
}

// extensionOf is what a name with that extension needs behind it for a file of that type; empty: nothing. A type of
// which nothing is known is told by the extension that there is.
func extensionOf(mediaType, ext string) string {
	if t, ok := sameTypes[mediaType]; ok {
		mediaType = t
	}
	list, known := extensions[mediaType]
	switch lower := strings.ToLower(ext); {
	case !known && ext == "":
		return ".bin"
	case !known:
		return ""
	case ext != "" && (mediaType == "text/plain" || mediaType == "application/octet-stream"):
		if lower == ".html" || lower == ".htm" || lower == ".xhtml" || lower == ".svg" { // it is shown as text
			return list[0]
		}
		return ""
	default:
		if slices.Contains(list, lower) {
			return ""
		}
	}
	return list[0]
}

// typeOf is the media type of what came. Servers that say none, or one that says nothing, are not believed, nor those
// that call a picture or the like a page.
func typeOf(said, ext string, first []byte) string {
	sniffed, _, _ := strings.Cut(http.DetectContentType(first), ";")
	isHTML := sniffed == "text/html"
	switch said {
	case "", "unknown/unknown", "application/unknown", "*/*":
		if sniffed == "text/plain" || sniffed == "text/xml" || sniffed == "application/octet-stream" {
			return typeByExtension(ext, sniffed)
		}
		return sniffed
	case "application/octet-stream", "binary/octet-stream":
		if ext = strings.ToLower(ext); isHTML && (ext == ".html" || ext == ".htm") {
			return "text/html"
		}
		return typeByExtension(ext, said)
	case "text/html", "application/xhtml+xml":
		switch kind, _, _ := strings.Cut(sniffed, "/"); {
		case kind == "image", kind == "audio", kind == "video", kind == "font", sniffed == "application/pdf", sniffed == "application/zip", sniffed == "application/x-gzip":
			return sniffed
		}
	}
	return said
}

// typeByExtension is the media type of a file with that extension; otherwise: it is none that is known.
func typeByExtension(ext, otherwise string) string {
	ext = strings.ToLower(ext)
	for _, t := range []string{"text/css", "text/javascript", "image/svg+xml", "font/woff2", "font/woff", "font/ttf", "image/x-icon", "application/json", "application/manifest+json"} {
		for _, e := range extensions[t] {
			if e == ext && e != ".map" {
				return t
			}
		}
	}
	return otherwise
}

// kindOf is what a file of that type is read as, which its page may know better.
func kindOf(mediaType string, as rewrite.Kind) rewrite.Kind {
	if t, ok := sameTypes[mediaType]; ok {
		mediaType = t
	}
	switch mediaType {
	case "text/html":
		return rewrite.HTML
	case "application/xhtml+xml", "image/svg+xml":
		return rewrite.XML
	case "text/css":
		return rewrite.CSS
	case "application/manifest+json":
		return rewrite.Manifest
	case "text/javascript":
		if as == rewrite.Module {
			return as
		}
		return rewrite.Script
	case "application/json", "text/plain":
		if as == rewrite.Manifest {
			return as
		}
	case "application/xml":
		if as == rewrite.XML {
			return as
		}
	}
	return rewrite.Opaque
}
