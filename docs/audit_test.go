package docs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// The commands of the page about audits run in their order, and end as it says.
func TestAuditPageRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<title>Home</title><a href="/gone">gone</a>`)
	}))
	defer site.Close()
	bin, dir := program(t), t.TempDir()
	var codes []int
	for _, block := range blocks(docpage.Read(t, "docs/how-to/audit.md"), "sh") {
		for line := range strings.Lines(strings.ReplaceAll(block, "https://example.com/", site.URL)) {
			out, err := shell(ctx, bin, dir, line).CombinedOutput()
			code := 0
			if exit := new(exec.ExitError); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else {
				require.NoError(t, err, "%s", out)
			}
			codes = append(codes, code)
		}
	}
	require.Equal(t, []int{20, 20, 20, 0, 0}, codes)
	for _, name := range []string{"report.html", "findings.csv", "audit.json", "junit.xml"} {
		require.FileExists(t, filepath.Join(dir, "audit", name))
	}
}
