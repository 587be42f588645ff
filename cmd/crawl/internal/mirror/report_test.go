package mirror

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files of a host that failed for one reason are one line, and those with a status are a line each.
func TestReportOfFailures(t *testing.T) {
	r := &Report{Complete: true, Dir: "copy", Failures: []Failure{{URL: "http://a.test/x", Status: 404}, {URL: "http://a.test/y", Status: 404}}}
	var out strings.Builder
	r.Write(&out)
	require.Contains(t, out.String(), "done: ")
	require.Equal(t, 2, strings.Count(out.String(), "not had: http://a.test/"))
	for _, file := range []string{"1", "2", "3"} {
		r.Failures = append(r.Failures, Failure{URL: "http://127.0.0.1:81/" + file, Err: "address_denied: robots.txt cannot be had: of " + file})
	}
	out.Reset()
	r.Write(&out)
	require.Contains(t, out.String(), "done, but not all files could be had: ")
	require.Contains(t, out.String(), "\n  not had: 3 files of 127.0.0.1:81: it has a private address; to have it asked, give --allow-private; --json lists them\n")
	require.Equal(t, 3, strings.Count(out.String(), "not had: "))
}
