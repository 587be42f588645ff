#!/bin/sh
# Builds a release: for each platform an archive with a static binary, its manual pages, completions
# and licence, for Linux also .deb and .rpm packages, a list of everything in the binary (SBOM,
# CycloneDX), the licences of its modules, a Homebrew formula, a Scoop manifest, and SHA256SUMS of all. The version
# is that of the tag or commit.
#
#   deploy/release.sh [DIR [PLATFORM...]]
#
# With SIGNING_KEY, the PEM file of an ECDSA key on P-256, SHA256SUMS.sig is its signature and treadlight.pub the
# public key, by which openssl checks it: docs/how-to/install.md has the commands.
#
# The same commit, built by the same version of Go, gives the same bytes: no path, no build
# ID, no time but that of the commit, and files in the order of their names. It needs GNU tar, zip,
# and git for the version.
set -eu
export LC_ALL=C TZ=UTC CGO_ENABLED=0
NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
SBOM=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
GO=${GO:-go}
dist=${1:-dist}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 linux/386 darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64 windows/amd64 windows/arm64

# Archives of another version must not get into the checksums.
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
rm -f "$dist"/crawl_* "$dist"/treadlight* "$dist"/SHA256SUMS*
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/bin"
GOFLAGS='' GOBIN="$work/bin" "$GO" install "$NFPM"
GOFLAGS='' GOBIN="$work/bin" "$GO" install "$SBOM"
PATH=$work/bin:$PATH

# The licences of the modules in a binary ask to be passed on with it.
licences() { # GOOS GOARCH
	GOOS=$1 GOARCH=$2 "$GO" list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/crawl | sort -u |
		while read -r path v dir; do
			find "$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | sort | while read -r file; do
				printf '==== %s %s: %s ====\n\n' "$path" "$v" "${file##*/}"
				cat "$file"
				echo
			done
		done
}

build() { # GOOS GOARCH FILE
	GOOS=$1 GOARCH=$2 "$GO" build -trimpath -buildvcs=true -ldflags '-s -w -buildid=' -o "$3" ./cmd/crawl
}

build "$("$GO" env GOHOSTOS)" "$("$GO" env GOHOSTARCH)" "$work/crawl"
version=$("$work/crawl" version | cut -d ' ' -f 2)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH="$epoch"
case $version in # versions of packages begin with a digit
v[0-9]*) packaged=${version#v} ;;
*) packaged=0~$version ;;
esac
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
	licences "$os" "$arch" >"$work/$name/LICENSES-OF-MODULES"
	cyclonedx-gomod bin -json -licenses -std -noserial -notimestamp -version "$version" -output "$dist/$name.cdx.json" "$work/$name/$binary" 2>"$work/sbom.log" ||
		{ cat "$work/sbom.log" >&2; exit 1; }
	find "$work/$name" -exec touch -d "@$epoch" {} +
	if [ "$os" = windows ]; then
		(cd "$work" && find "$name" -type f | sort | zip -q -9 -X -@ "$dist/$name.zip")
	else
		tar --sort=name --format=ustar --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
			-C "$work" -cf - "$name" | gzip -9n >"$dist/$name.tar.gz"
	fi
	echo "$name"
	if [ "$os" = linux ]; then
		sed -i 's|/usr/local/bin/crawl|/usr/bin/crawl|g' "$work/$name"/systemd/*.service
		gzip -9n "$work/$name"/man/*
		find "$work/$name" -exec touch -d "@$epoch" {} +
		for packager in deb rpm; do
			(cd "$work/$name" && ARCH=$arch VERSION=$packaged nfpm package -f "$here/nfpm.yaml" -p "$packager" -t "$dist" >/dev/null)
		done
	fi
	rm -rf "${work:?}/$name"
done
fill() { # TEMPLATE FILE: only if all archives that it names were built
	script="s|@VERSION@|$packaged|g; s|@TAG@|$version|g; s|@URL@|https://github.com/treadlight/crawl/releases/download/$version|g"
	for platform in $(sed -n 's/.*@SUM \([a-z0-9_]*\)@.*/\1/p' "$1"); do
		archive=$(find "$dist" -name "crawl_${version}_$platform.tar.gz" -o -name "crawl_${version}_$platform.zip")
		[ -n "$archive" ] || return 0
		script="$script; s|@SUM $platform@|$(sha256sum "$archive" | cut -d ' ' -f 1)|"
	done
	sed "$script" "$1" >"$2"
}
fill deploy/homebrew.rb "$dist/treadlight.rb"
fill deploy/scoop.json "$dist/treadlight.json"
(cd "$dist" && sha256sum crawl_* treadlight* >SHA256SUMS)
if [ -n "${SIGNING_KEY:-}" ]; then
	openssl dgst -sha256 -sign "$SIGNING_KEY" -out "$work/sig" "$dist/SHA256SUMS"
	openssl base64 -A -in "$work/sig" -out "$dist/SHA256SUMS.sig"
	openssl pkey -in "$SIGNING_KEY" -pubout -out "$dist/treadlight.pub"
fi
