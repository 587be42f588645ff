package mirror

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/mirror/rewrite"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// fileType is a media type, with its other names, and the extensions by which a browser that opens a file knows it, the usual
// one first.
type fileType struct {
	names, extensions []string
}

// The types by their names, and by their extensions: of two with the same extension the first.
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

// typeNamed is the usual name of a media type.
func typeNamed(mediaType string) string {
	if t := byName[mediaType]; t != nil {
		return t.names[0]
	}
	return mediaType
}

// typeByExtension is the media type of a file with that extension; otherwise: it is none that is known.
func typeByExtension(ext, otherwise string) string {
	if t := byExtension[strings.ToLower(ext)]; t != nil {
		return t.names[0]
	}
	return otherwise
}

// extensionOf is what a name with that extension needs behind it for a file of that type; empty: nothing. A type of
// which nothing is known is told by the extension that there is.
func extensionOf(mediaType, ext string) string {
	t, lower := byName[mediaType], strings.ToLower(ext)
	switch {
	case t == nil && ext == "":
		return ".bin"
	case t == nil || slices.Contains(t.extensions, lower):
		return ""
	case ext != "" && (t.names[0] == "text/plain" || t.names[0] == "application/octet-stream"):
		if shown := kindOf(typeByExtension(ext, ""), rewrite.Opaque); shown != rewrite.HTML && shown != rewrite.XML {
			return "" // and the others are to be shown as text
		}
	}
	return t.extensions[0]
}

// typeOf is the media type of what came. Servers that say none, or one that says nothing, are not believed, nor those
// that call a picture or the like a page.
func typeOf(said, ext string, first []byte) string {
	sniffed, _, _ := strings.Cut(http.DetectContentType(first), ";")
	kind, _, _ := strings.Cut(sniffed, "/")
	byName := typeByExtension(ext, sniffed)
	switch said {
	case "", "unknown/unknown", "application/unknown", "*/*", "application/octet-stream", "binary/octet-stream":
		vague := sniffed == "text/plain" || sniffed == "text/xml" || sniffed == "application/octet-stream"
		switch isPage := kindOf(byName, rewrite.Opaque) == rewrite.HTML; {
		case vague && !isPage:
			return byName
		case strings.HasSuffix(said, "octet-stream") && (!isPage || sniffed != "text/html"):
			return typeByExtension(ext, said)
		}
		return sniffed
	case "text/html", "application/xhtml+xml":
		if slices.Contains([]string{"image", "audio", "video", "font"}, kind) || sniffed == "application/pdf" || sniffed == "application/zip" || sniffed == "application/x-gzip" {
			return sniffed
		}
	}
	return said
}

// kinds is what types are read as, and knownByPage what only a page can know of a file of these types.
var (
	kinds = map[string]rewrite.Kind{
		"text/html": rewrite.HTML, "application/xhtml+xml": rewrite.XML, "image/svg+xml": rewrite.XML, "text/css": rewrite.CSS,
		"application/manifest+json": rewrite.Manifest, "text/javascript": rewrite.Script,
	}
	knownByPage = map[string]rewrite.Kind{
		"application/json": rewrite.Manifest, "text/plain": rewrite.Manifest, "application/xml": rewrite.XML, "text/javascript": rewrite.Module,
	}
)

// kindOf is what a file of that type is read as, asked for by a page as something or other.
func kindOf(mediaType string, as rewrite.Kind) rewrite.Kind {
	mediaType = typeNamed(mediaType)
	if as != rewrite.Opaque && knownByPage[mediaType] == as {
		return as
	}
	return kinds[mediaType]
}

// checkKept reports what is no media type.
func checkKept(types []string) error {
	for _, t := range types {
		if _, err := path.Match(t, ""); err != nil || strings.Count(t, "/") != 1 || strings.HasPrefix(t, "/") || strings.HasSuffix(t, "/") {
			return cli.Usagef("--keep %q is no media type: write one such as application/pdf or image/*", t)
		}
	}
	return nil
}

// keeps reports whether the copy is to have files of a media type.
func (m *Mirror) keeps(mediaType string) bool {
	return len(m.o.Keep) == 0 || slices.ContainsFunc(m.o.Keep, func(t string) bool {
		ok, _ := path.Match(strings.ToLower(t), mediaType) // checkKept has seen the error
		return ok
	})
}

// spares reports whether a part of a page need not be asked for: it is named like a picture, a font and the like, which
// have no links, or like a style sheet, which leads to pictures and fonts alone, and nothing of that is kept. A page may
// have any name.
func (m *Mirror) spares(u canonical.URL) bool {
	name, _, _ := strings.Cut(u.Path(), "?")
	t := byExtension[strings.ToLower(path.Ext(name))]
	if len(m.o.Keep) == 0 || t == nil || slices.ContainsFunc(t.names, m.keeps) {
		return false
	}
	shown := func(t *fileType) bool {
		kind, _, _ := strings.Cut(t.names[0], "/")
		return kind == "image" || kind == "font"
	}
	switch t.names[0] {
	case "image/svg+xml":
		return false
	case "text/javascript", "audio/mpeg", "audio/ogg", "video/mp4", "video/webm":
		return true
	case "text/css":
		return !slices.ContainsFunc(m.o.Keep, func(kept string) bool {
			k := byName[strings.ToLower(kept)]
			return k == nil || shown(k)
		})
	}
	return shown(t)
}
