package mirror

import (
	"path"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/web/canonical"
)

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
	for _, t := range m.o.Keep {
		if ok, _ := path.Match(strings.ToLower(t), mediaType); ok { // checkKept has seen the error
			return true
		}
	}
	return len(m.o.Keep) == 0
}

// spares reports whether a part of a page need not be asked for: it is named like a picture, a font and the like, which
// have no links, or like a style sheet, which leads to pictures and fonts alone, and nothing of that is kept. A page may
// have any name.
func (m *Mirror) spares(url string) bool {
	if len(m.o.Keep) == 0 {
		return false
	}
	name, _, _ := strings.Cut(canonical.Restore(url).Path(), "?")
	ext := strings.ToLower(path.Ext(name))
	for mediaType, list := range extensions {
		if !slices.Contains(list, ext) {
			continue
		}
		switch kind, _, _ := strings.Cut(mediaType, "/"); {
		case kind == "image" && mediaType != "image/svg+xml", kind == "audio", kind == "video", kind == "font", mediaType == "text/javascript":
			return !keepsAny(m, mediaType)
		case mediaType == "text/css":
			return !keepsAny(m, mediaType, "image/", "font/")
		}
	}
	return false
}

// keepsAny reports whether a type that begins like one of these is kept, by any of its names.
func keepsAny(m *Mirror, begins ...string) bool {
	like := func(mediaType string) bool {
		return slices.ContainsFunc(begins, func(s string) bool { return strings.HasPrefix(mediaType, s) })
	}
	for _, t := range m.o.Keep { // extensions has not every type
		if like(strings.ToLower(t)) {
			return true
		}
	}
	for mediaType := range extensions {
		if like(mediaType) && m.keeps(mediaType) {
			return true
		}
	}
	for other, mediaType := range sameTypes {
		if like(mediaType) && m.keeps(other) {
			return true
		}
	}
	return false
}

// typeOf is the media type of a file of the copy.
func (x *index) typeOf(file string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.entries[x.claims[folded(file)]]; e != nil {
		return e.Type
	}
	return ""
}
