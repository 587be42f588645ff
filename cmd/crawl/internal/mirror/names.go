package mirror

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/store/filename"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/mediatype"
)

// The bounds of names in bytes. File systems allow 255 in a component, some only 143; Windows allows 260 in a path,
// including its directory.
const (
	maxComponent = 100
	maxPath      = 200
	maxQuery     = 60
)

// nameOf returns the file of a URL with that media type, relative to the copy and with slashes. It depends on nothing
// else. The name is valid on every file system: no component is empty, is reserved on Windows, begins or ends with a
// dot or a blank, or has a byte that is not UTF-8.
func nameOf(u canonical.URL, mediaType string) string {
	p, query, hasQuery := strings.Cut(u.Path(), "?")
	parts := []string{hostName(u.Host())}
	segments := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for _, s := range segments[:len(segments)-1] {
		parts = append(parts, component(s, ""))
	}
	last, ext := segments[len(segments)-1], ""
	if last == "" {
		last = "index"
	} else if found := extension().FindString(last); len(found) < len(last) {
		last, ext = strings.TrimSuffix(last, found), found
	}
	if want := mediatype.Extension(mediaType, ext); want != "" {
		last, ext = last+ext, want
	}
	if hasQuery {
		if len(query) > maxQuery {
			query = fmt.Sprintf("%.24s~%s", query, filename.Hash(query))
		}
		last += "@" + query
	}
	parts = append(parts, component(last, ext))
	if name := strings.Join(parts, "/"); len(name) <= maxPath {
		return name
	}
	return path.Join(parts[0], "~"+filename.Hash(strings.Join(parts, "/")), component(last, ext))
}

var extension = lazy.Regexp(`\.[0-9A-Za-z]{1,11}$`)

// hostName returns the directory of a host. A plus stands for the colon before a port, which a name cannot have.
func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i] + "+" + host[i+1:]
	}
	return component(strings.Trim(strings.ReplaceAll(host, "]+", "+"), "[]"), "")
}

func component(s, ext string) string { return filename.Component(s, ext, maxComponent) }

// relative returns the escaped reference from one file of the copy to another.
func relative(from, to string) string {
	ref, _ := filepath.Rel(filepath.FromSlash(path.Dir(from)), filepath.FromSlash(to)) // both are relative
	return escaped.Replace((&url.URL{Path: filepath.ToSlash(ref)}).EscapedPath())
}

// escaped escapes characters that end a reference in a style sheet or a srcset, or begin one in HTML.
var escaped = strings.NewReplacer("&", "%26", ",", "%2C", "(", "%28", ")", "%29", "'", "%27", ";", "%3B", "!", "%21", "*", "%2A", "$", "%24")
