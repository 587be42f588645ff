package main

import (
	"testing"

	"github.com/treadlight/crawl/examples/internal/check"
)

func TestOutput(t *testing.T) {
	pace = check.Fast
	check.Output(t, "shared", check.Pages(check.Books), run)
}
