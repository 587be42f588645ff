package header_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// The cases are in testdata/conformance/headers.
func TestConformance(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/conformance/headers/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	received := time.Date(2019, 8, 5, 9, 27, 0, 0, time.UTC)
	result := conformance.Result{Differs: map[string]int{}}
	name, h, asked := "", http.Header{}, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "= "); ok {
			name, h, asked = title, http.Header{}, false
			continue
		}
		want, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if field, value, ok := strings.Cut(line, ": "); ok && name != "" {
				if asked {
					t.Fatalf("%s: %q stands behind the verdict", name, line)
				}
				h.Add(field, value)
			}
			continue
		}
		asked = true
		want, why, differs := strings.Cut(want, " differs: ")
		result.Cases++
		switch got := said(h, received, strings.HasPrefix(want, "retry")); {
		case differs && got != want:
			result.Differs[why]++
		case got == want && !differs:
			result.Passed++
		default:
			t.Errorf("%s: %v = %q, want %q, differs: %v", name, h, got, want, differs)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "headers", result)
	}
}

// said is what a header says, in the words of the cases.
func said(h http.Header, now time.Time, retry bool) string {
	d, ok := header.RetryAfterOf(h, now, 0)
	if retry {
		return fmt.Sprintf("retry %v", d.Seconds())
	}
	q, quota := header.Parse(h, now)
	switch {
	case quota:
		return fmt.Sprintf("limit %d remaining %d reset %v window %v", q.Limit, q.Remaining, q.Reset.Seconds(), q.Window.Seconds())
	case ok:
		return fmt.Sprintf("retry %v", d.Seconds())
	}
	return "nothing"
}
