package chunk

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"strings"

	"github.com/treadlight/crawl/internal/store/filename"
)

const (
	maxSegment = 80  // bytes of a path segment without its ending; every file system supports that
	maxName    = 200 // bytes of a path
	hashed     = 8   // hex digits of the hash that distinguishes names
)

// Name returns the path of the file for a URL, with slashes: host/path.md. The same URL always has the same name, and
// different URLs have different names, also on file systems that ignore case. The path stays below its directory,
// whatever the URL is. If the path of the URL cannot be used as it is, the name contains a hash.
func Name(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" {
		u = &url.URL{Host: "page"}
	}
	host, plain := segment(strings.ReplaceAll(u.Host, ":", "_"))
	if host = cmp.Or(host, "page"); u.Port() != "" && u.Scheme == "https" {
		host += "_https" // http has the shorter name, as it is the usual scheme on other ports
	}
	p := u.EscapedPath()
	plain = plain && u.RawQuery == "" && !u.ForceQuery && (u.Scheme == "https" || u.Port() != "") && !strings.Contains(u.Hostname(), "_")
	var parts []string
	segments := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, s := range segments {
		last := i == len(segments)-1
		name, ok := segment(s)
		switch {
		case s == "" && last:
			name = "index"
		case s == "", last && s == "index", strings.HasSuffix(s, ".md"), filename.IsDevice(name):
			ok = false
			name = "_" + name
		}
		plain = plain && ok
		parts = append(parts, name)
	}
	name := path.Join(parts...)
	if plain && len(host)+len(name) < maxName {
		return host + "/" + name + ".md"
	}
	for len(parts) > 1 && len(host)+len(path.Join(parts...)) >= maxName {
		parts = parts[1:]
	}
	sum := sha256.Sum256([]byte(at))
	return host + "/" + path.Join(parts...) + "-" + hex.EncodeToString(sum[:hashed/2]) + ".md"
}

// segment returns a file name that every file system supports, and whether it equals s.
func segment(s string) (name string, same bool) {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, s)
	name = strings.Trim(clip(name, maxSegment), ".")
	return cmp.Or(name, "_"), name == s
}
