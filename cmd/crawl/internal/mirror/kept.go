package mirror

import (
	"mime"
	"path"
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

// spares reports whether a URL need not be asked for: it is named like a picture, a font and the like, which have no
// links, and are not kept.
func (m *Mirror) spares(url string) bool {
	if len(m.o.Keep) == 0 {
		return false
	}
	name, _, _ := strings.Cut(canonical.Restore(url).Path(), "?")
	mediaType, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(name)), ";")
	switch kind, _, _ := strings.Cut(mediaType, "/"); {
	case kind == "image" && mediaType != "image/svg+xml", kind == "audio", kind == "video", kind == "font", mediaType == "text/css", mediaType == "text/javascript":
		return !m.keeps(mediaType)
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
