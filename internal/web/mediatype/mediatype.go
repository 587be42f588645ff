// Package mediatype knows the media types of the web: their other names, the extensions of their files, and what is to be
// made of a type that a server does not say or says wrongly. The mime package of the standard library depends on files
// of the system, and knows one extension per type.
package mediatype

import (
	"mime"
	"net/http"
	"slices"
	"strings"
)

// fileType is a media type. The usual name and extension come first.
type fileType struct{ names, extensions []string }

// byName and byExtension have the types by their names and their extensions. If two types share an extension, the first
// one counts.
var byName, byExtension = func() (names, extensions map[string]*fileType) {
	names, extensions = map[string]*fileType{}, map[string]*fileType{}
	for line := range strings.SplitSeq(`text/html .html .htm
application/xhtml+xml .xhtml .xht
text/css .css
text/javascript application/javascript application/x-javascript text/ecmascript application/ecmascript .js .mjs .cjs
image/svg+xml .svg
image/png .png .apng
image/jpeg image/jpg .jpg .jpeg .jpe .jfif
image/gif .gif
image/webp .webp
image/avif .avif
image/x-icon image/vnd.microsoft.icon image/ico .ico .cur
application/json text/json .json .map .webmanifest
application/manifest+json .webmanifest .json
application/pdf .pdf
font/woff2 application/font-woff2 .woff2
font/woff application/font-woff application/x-font-woff .woff
font/ttf application/x-font-ttf .ttf
font/otf .otf
text/plain .txt
application/xml text/xml .xml .rss .atom .xsl .xslt .svg
application/rss+xml .rss .xml
application/atom+xml .atom .xml
application/wasm .wasm
video/mp4 .mp4 .m4v
video/webm .webm
audio/mpeg .mp3
audio/ogg .ogg .oga .opus
application/zip .zip
application/octet-stream .bin`, "\n") {
		t := new(fileType)
		for word := range strings.FieldsSeq(line) {
			if word[0] != '.' {
				t.names, names[word] = append(t.names, word), t
			} else if t.extensions = append(t.extensions, word); extensions[word] == nil {
				extensions[word] = t
			}
		}
	}
	return names, extensions
}()

// Names returns the names of a media type, the usual one first. Of an unknown one it returns the given name.
func Names(mediaType string) []string {
	if t := byName[mediaType]; t != nil {
		return slices.Clone(t.names)
	}
	return []string{mediaType}
}

// Usual returns the usual name of a media type, which is in lower case and without parameters.
func Usual(mediaType string) string {
	if t := byName[mediaType]; t != nil {
		return t.names[0]
	}
	return mediaType
}

// OfExtension returns the usual name of the type of files with that extension, which begins with a dot, or otherwise if
// the extension is not known.
func OfExtension(ext, otherwise string) string {
	if t := byExtension[strings.ToLower(ext)]; t != nil {
		return t.names[0]
	}
	return otherwise
}

// Extension returns the extension to append to a name with extension ext, so that a browser opens the file as that media
// type. It returns "" if ext is right already, or if the type is not known.
func Extension(mediaType, ext string) string {
	t := byName[mediaType]
	switch {
	case t == nil && ext == "":
		return ".bin"
	case t == nil || slices.Contains(t.extensions, strings.ToLower(ext)):
		return ""
	case ext != "" && (t.names[0] == "text/plain" || t.names[0] == "application/octet-stream"):
		switch OfExtension(ext, "") {
		case "text/html", "application/xhtml+xml", "image/svg+xml": // they must open as text
		default:
			return ""
		}
	}
	return t.extensions[0]
}

// OfBody returns the media type of a body of which said is the type by the server, and ext the extension by its name. It
// does not trust a server that gives no type or a vague one, nor one that calls a picture or the like a page. First is
// the beginning of the body: 512 bytes, or all of it.
func OfBody(said, ext string, first []byte) string {
	sniffed, _, _ := strings.Cut(http.DetectContentType(first), ";")
	switch said {
	case "application/octet-stream", "binary/octet-stream": // browsers store that under its own name
		return OfExtension(ext, said)
	case "", "unknown/unknown", "application/unknown", "*/*":
		byName := OfExtension(ext, sniffed)
		if vague := sniffed == "text/plain" || sniffed == "text/xml" || sniffed == "application/octet-stream"; vague && byName != "text/html" {
			return byName
		}
		return sniffed
	case "text/html", "application/xhtml+xml":
		kind, _, _ := strings.Cut(sniffed, "/")
		if slices.Contains([]string{"image", "audio", "video", "font"}, kind) || sniffed == "application/pdf" || sniffed == "application/zip" || sniffed == "application/x-gzip" {
			return sniffed
		}
	}
	return said
}

// IsHTML reports whether a media type without parameters is that of pages.
func IsHTML(mediaType string) bool {
	return strings.EqualFold(mediaType, "text/html") || strings.EqualFold(mediaType, "application/xhtml+xml")
}

// Valid reports whether name is a media type in lower case without parameters, or, with patterns, one of the patterns
// that [Best] knows: image/* or */*.
func Valid(name string, patterns bool) bool {
	kind, sub, ok := strings.Cut(name, "/")
	if patterns && ok && sub == "*" {
		sub = "x"
		if kind == "*" {
			kind = "x"
		}
	}
	media, params, err := mime.ParseMediaType(kind + "/" + sub)
	return ok && err == nil && media == kind+"/"+sub && len(params) == 0 && !strings.Contains(media, "*")
}

// Best returns what is there for a media type: under its own name, else for its kind, such as image/*, else for */*.
func Best[T any](by map[string]T, mediaType string) (found T) {
	kind, _, _ := strings.Cut(mediaType, "/")
	for _, pattern := range []string{mediaType, kind + "/*", "*/*"} {
		if found, ok := by[pattern]; ok {
			return found
		}
	}
	return found
}
