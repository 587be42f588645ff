// Package build says which build of the program this is.
package build

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// VersionText is what a bug report needs.
func VersionText() string {
	return fmt.Sprintf("crawl %s %s %s/%s", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Version is the module's version as the build recorded it; a build from a checkout
// says which commit, and one that was not told says "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
