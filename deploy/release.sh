#!/bin/sh
# Builds the archives of a release: for each platform a static binary with its manual pages,
# completions and licence, and SHA256SUMS of all. The version is that of the tag or commit.
#
#   deploy/release.sh [DIR [PLATFORM...]]
#
# The same commit, built by the same version of Go, gives the same bytes: no path, no build
# ID, no time but that of the commit, and files in the order of their names. It needs GNU tar,
# and git for the version.
set -eu
export LC_ALL=C TZ=UTC CGO_ENABLED=0
GO=${GO:-go}
dist=${1:-dist}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 linux/386 darwin/amd64 darwin/arm64 freebsd/amd64 windows/amd64 windows/arm64

# Archives of another version must not get into the checksums.
mkdir -p "$dist"
rm -f "$dist"/crawl_*.tar.gz "$dist"/SHA256SUMS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

build() { # GOOS GOARCH FILE
	GOOS=$1 GOARCH=$2 "$GO" build -trimpath -buildvcs=true -ldflags '-s -w -buildid=' -o "$3" ./cmd/crawl
}

build "$("$GO" env GOHOSTOS)" "$("$GO" env GOHOSTARCH)" "$work/crawl"
version=$("$work/crawl" version | cut -d ' ' -f 2)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
mkdir "$work/common" "$work/common/completions"
"$work/crawl" man "$work/common/man" >/dev/null
for shell in bash zsh fish powershell; do
	"$work/crawl" completion "$shell" >"$work/common/completions/crawl.$shell"
done
cp LICENSE README.md "$work/common/"
cp -r deploy/systemd "$work/common/"

for platform in "$@"; do
	os=${platform%/*} arch=${platform#*/}
	name=crawl_${version}_${os}_$arch
	cp -r "$work/common" "$work/$name"
	binary=crawl
	if [ "$os" = windows ]; then binary=crawl.exe; fi
	if [ "$os" != linux ]; then rm -rf "$work/$name/systemd"; fi
	build "$os" "$arch" "$work/$name/$binary"
	tar --sort=name --format=ustar --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
		-C "$work" -cf - "$name" | gzip -9n >"$dist/$name.tar.gz"
	rm -rf "${work:?}/$name"
	echo "$name.tar.gz"
done
(cd "$dist" && sha256sum crawl_*.tar.gz >SHA256SUMS)
