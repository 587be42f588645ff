package main

import (
	"context"
	"io"
	"testing"

	"github.com/treadlight/crawl/examples/internal/check"
)

func TestOutput(t *testing.T) {
	a, err := limits()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	check.Output(t, "admit-gin", api(a), func(ctx context.Context, out io.Writer, base string) error {
		return check.Ask(ctx, out, base)
	})
}
