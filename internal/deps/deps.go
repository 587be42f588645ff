//go:build tools

// Package deps pins modules while the tree is being laid.
package deps

import (
	_ "code.dny.dev/ssrf"
	_ "github.com/andybalholm/brotli"
	_ "github.com/cespare/xxhash/v2"
	_ "github.com/hashicorp/golang-lru/v2"
	_ "github.com/hashicorp/golang-lru/v2/simplelru"
	_ "github.com/klauspost/compress/gzip"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/nlnwa/whatwg-url/url"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/stretchr/testify/require"
	_ "go.uber.org/goleak"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/net/html"
	_ "golang.org/x/net/html/charset"
	_ "golang.org/x/net/publicsuffix"
	_ "golang.org/x/net/idna"
	_ "golang.org/x/net/http2"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/term"
	_ "golang.org/x/text/encoding"
	_ "golang.org/x/time/rate"
	_ "pgregory.net/rapid"
)
