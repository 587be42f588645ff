package mirror

import (
	"path"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/mirror/rewrite"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/mediatype"
)

// kinds has how a type is read. knownByPage has types that are read so only if the page says that it uses the file in
// that way.
var (
	kinds = map[string]rewrite.Kind{
		"text/html": rewrite.HTML, "application/xhtml+xml": rewrite.XML, "image/svg+xml": rewrite.XML, "text/css": rewrite.CSS,
		"application/manifest+json": rewrite.Manifest, "text/javascript": rewrite.Script,
	}
	knownByPage = map[string]rewrite.Kind{
		"application/json": rewrite.Manifest, "text/plain": rewrite.Manifest, "application/xml": rewrite.XML, "text/javascript": rewrite.Module,
	}
)

// kindOf returns how a file of that type is read, if a page uses it as that.
func kindOf(mediaType string, as rewrite.Kind) rewrite.Kind {
	mediaType = mediatype.Usual(mediaType)
	if as != rewrite.Opaque && knownByPage[mediaType] == as {
		return as
	}
	return kinds[mediaType]
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

// isPicture reports whether files of a media type are pictures or fonts.
func isPicture(mediaType string) bool {
	kind, _, _ := strings.Cut(mediaType, "/")
	return kind == "image" || kind == "font"
}

// spares reports whether a part of a page need not be requested because --keep excludes it and all that it may lead to.
// By its extension it is a picture, a font, a script or a sound, which have no links, or a style sheet, which leads to
// pictures and fonts alone. A page may have any name.
func (m *Mirror) spares(u canonical.URL) bool {
	name, _, _ := strings.Cut(u.Path(), "?")
	t := mediatype.OfExtension(path.Ext(name), "")
	if len(m.o.Keep) == 0 || t == "" || slices.ContainsFunc(mediatype.Names(t), m.keeps) {
		return false
	}
	switch kind, _, _ := strings.Cut(t, "/"); {
	case t == "text/css":
		return !slices.ContainsFunc(m.o.Keep, func(kept string) bool {
			return strings.Contains(kept, "*") || isPicture(mediatype.Usual(strings.ToLower(kept)))
		})
	case isPicture(t):
		return t != "image/svg+xml"
	default:
		return kind == "audio" || kind == "video" || t == "text/javascript"
	}
}
