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

// fileType is a media type with its other names and the extensions by which a browser recognizes its files. The usual
// name and extension come first.
type fileType struct {
	kind, as          rewrite.Kind // how it is read, and how if the page uses it as that
	names, extensions []string
}

// byName and byExtension have the types by their names and their extensions. If two types share an extension, the first
// one counts. Before the names of a type is how it is read; after a slash, how it is if the page uses it as that.
var byName, byExtension = func() (names, extensions map[string]*fileType) {
	names, extensions = map[string]*fileType{}, map[string]*fileType{}
	kinds := map[string]rewrite.Kind{"html": rewrite.HTML, "xml": rewrite.XML, "css": rewrite.CSS, "manifest": rewrite.Manifest, "script": rewrite.Script, "module": rewrite.Module}
	for line := range strings.SplitSeq(`html text/html .html .htm
xml application/xhtml+xml .xhtml .xht
css text/css .css
script/module text/javascript application/javascript application/x-javascript text/ecmascript application/ecmascript .js .mjs .cjs
xml image/svg+xml .svg
- image/png .png .apng
- image/jpeg image/jpg .jpg .jpeg .jpe .jfif
- image/gif .gif
- image/webp .webp
- image/avif .avif
- image/x-icon image/vnd.microsoft.icon image/ico .ico .cur
-/manifest application/json text/json .json .map .webmanifest
manifest application/manifest+json .webmanifest .json
- application/pdf .pdf
- font/woff2 application/font-woff2 .woff2
- font/woff application/font-woff application/x-font-woff .woff
- font/ttf application/x-font-ttf .ttf
- font/otf .otf
-/manifest text/plain .txt
-/xml application/xml text/xml .xml .rss .atom .xsl .xslt .svg
- application/rss+xml .rss .xml
- application/atom+xml .atom .xml
- application/wasm .wasm
- video/mp4 .mp4 .m4v
- video/webm .webm
- audio/mpeg .mp3
- audio/ogg .ogg .oga .opus
- application/zip .zip
- application/octet-stream .bin`, "\n") {
		read, rest, _ := strings.Cut(line, " ")
		read, as, _ := strings.Cut(read, "/")
		t := &fileType{kind: kinds[read], as: kinds[as]}
		for word := range strings.FieldsSeq(rest) {
			if word[0] != '.' {
				t.names, names[word] = append(t.names, word), t
			} else if t.extensions = append(t.extensions, word); extensions[word] == nil {
				extensions[word] = t
			}
		}
	}
	return names, extensions
}()

// typeByExtension returns the media type of files with that extension, or otherwise if the extension is not known.
func typeByExtension(ext, otherwise string) string {
	if t := byExtension[strings.ToLower(ext)]; t != nil {
		return t.names[0]
	}
	return otherwise
}

// kindOf returns how a file of that type is read, if a page uses it as that.
func kindOf(mediaType string, as rewrite.Kind) rewrite.Kind {
	switch t := byName[mediaType]; {
	case t == nil:
		return rewrite.Opaque
	case as != rewrite.Opaque && t.as == as:
		return as
	default:
		return t.kind
	}
}

// isPicture reports whether files of a media type are pictures or fonts.
func isPicture(mediaType string) bool {
	kind, _, _ := strings.Cut(mediaType, "/")
	return kind == "image" || kind == "font"
}

// extensionOf returns the extension to append to a name with extension ext, so that the file opens as its media type.
// It returns "" if ext is right already, or if the type is not known.
func extensionOf(mediaType, ext string) string {
	t, lower := byName[mediaType], strings.ToLower(ext)
	switch {
	case t == nil && ext == "":
		return ".bin"
	case t == nil || slices.Contains(t.extensions, lower):
		return ""
	case ext != "" && (t.names[0] == "text/plain" || t.names[0] == "application/octet-stream"):
		if shown := kindOf(typeByExtension(ext, ""), rewrite.Opaque); shown != rewrite.HTML && shown != rewrite.XML {
			return "" // but HTML and XML must open as text
		}
	}
	return t.extensions[0]
}

// typeOf returns the media type of a body. It does not trust a server that gives no type or a vague one, nor one that
// calls a picture or the like a page.
func typeOf(said, ext string, first []byte) string {
	sniffed, _, _ := strings.Cut(http.DetectContentType(first), ";")
	kind, _, _ := strings.Cut(sniffed, "/")
	byName := typeByExtension(ext, sniffed)
	switch said {
	case "application/octet-stream", "binary/octet-stream": // browsers store that under its own name
		return typeByExtension(ext, said)
	case "", "unknown/unknown", "application/unknown", "*/*":
		vague := sniffed == "text/plain" || sniffed == "text/xml" || sniffed == "application/octet-stream"
		if vague && kindOf(byName, rewrite.Opaque) != rewrite.HTML {
			return byName
		}
		return sniffed
	case "text/html", "application/xhtml+xml":
		if slices.Contains([]string{"image", "audio", "video", "font"}, kind) || sniffed == "application/pdf" || sniffed == "application/zip" || sniffed == "application/x-gzip" {
			return sniffed
		}
	}
	return said
}

// checkKept returns an error if an element is not a media type or a pattern of some.
func checkKept(types []string) error {
	for _, t := range types {
		if _, err := path.Match(t, ""); err != nil || strings.Count(t, "/") != 1 || strings.HasPrefix(t, "/") || strings.HasSuffix(t, "/") {
			return cli.Usagef("--keep %q is no media type: write one such as application/pdf or image/*", t)
		}
	}
	return nil
}

// keeps reports whether the copy keeps files of a media type.
func (m *Mirror) keeps(mediaType string) bool {
	return len(m.o.Keep) == 0 || slices.ContainsFunc(m.o.Keep, func(t string) bool {
		ok, _ := path.Match(strings.ToLower(t), mediaType) // checkKept has checked the pattern
		return ok
	})
}

// spares reports whether a part of a page need not be requested because --keep excludes it and all that it may lead to.
// By its extension it is a picture, a font, a script or a sound, which have no links, or a style sheet, which leads to
// pictures and fonts alone. A page may have any name.
func (m *Mirror) spares(u canonical.URL) bool {
	name, _, _ := strings.Cut(u.Path(), "?")
	t := byExtension[strings.ToLower(path.Ext(name))]
	if len(m.o.Keep) == 0 || t == nil || slices.ContainsFunc(t.names, m.keeps) {
		return false
	}
	switch kind, _, _ := strings.Cut(t.names[0], "/"); {
	case t.kind == rewrite.CSS:
		return !slices.ContainsFunc(m.o.Keep, func(kept string) bool {
			k := byName[strings.ToLower(kept)]
			return k == nil || isPicture(k.names[0])
		})
	case t.kind == rewrite.Opaque && isPicture(t.names[0]), kind == "audio", kind == "video":
		return true
	}
	return t.kind == rewrite.Script
}
