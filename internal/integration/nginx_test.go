package integration_test

import (
	"path/filepath"
	"testing"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

// documentation is the directory of a Debian documentation package.
func documentation(t testing.TB, dirs ...string) string {
	t.Helper()
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return real
		}
	}
	realserver.Need(t, "the documentation in "+dirs[0])
	return ""
}

func pythonDocs(t testing.TB) string {
	return documentation(t, "/usr/share/doc/python3-doc/html", "/usr/share/doc/python3/html")
}

func boostDocs(t testing.TB) string {
	return documentation(t, "/usr/share/doc/libboost-doc/doc")
}
