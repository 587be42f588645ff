package version

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
)

func TestETag(t *testing.T) {
	for _, good := range []string{`""`, `"x"`, `W/"x,y;z"`, `"` + strings.Repeat("a", longestETag-2) + `"`} {
		require.Equal(t, good, etag(good))
	}
	for _, bad := range []string{
		"", "*", "x", `x"`, `"x`, `"`, `w/"x"`, `"a"b"`, `"a", "b"`, `"a b"`, "\"a\r\nX: y\"", "\"a\x00\"", `"ü"`, "\"\x7f\"", `W/`, `W/"`,
		`"` + strings.Repeat("a", longestETag-1) + `"`, `"` + strings.Repeat("a", 8<<10) + `"`,
	} {
		require.Empty(t, etag(bad), "%q", bad)
	}
}

// Whatever a server calls a version, what is sent back of it is one line of visible ASCII, and short.
func FuzzValidators(f *testing.F) {
	f.Add(`W/"abc"`, "Sun, 06 Nov 1994 08:49:37 GMT")
	f.Add("\"a\"\r\nEvil: 1", "Sunday, 06-Nov-94 08:49:37 GMT")
	f.Add("*", "Sun Nov  6 08:49:37 1994")
	f.Fuzz(func(t *testing.T, tag, date string) {
		v := new(frontier.Visit)
		v.ETag, v.LastModified = validators(http.Header{"Etag": {tag}, "Last-Modified": {date}})
		for _, v := range []*frontier.Visit{v, {ETag: tag, LastModified: v.LastModified}} {
			for name, values := range Condition(v) {
				require.Len(t, values, 1)
				require.Contains(t, []string{"If-None-Match", "If-Modified-Since"}, name)
				require.LessOrEqual(t, len(values[0]), longestETag)
				require.NotEqual(t, "*", values[0])
				for _, c := range []byte(values[0]) {
					require.True(t, c >= ' ' && c < 0x7f, "%q", values[0])
				}
			}
		}
	})
}

func TestValidators(t *testing.T) {
	when := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"Sun, 06 Nov 1994 08:49:37 GMT":  when,
		"Sunday, 06-Nov-94 08:49:37 GMT": when,
		"Sun Nov  6 08:49:37 1994":       when,
		"1994-11-06T08:49:37Z":           {},
		"yesterday":                      {},
		"":                               {},
		"0":                              {},
	} {
		_, got := validators(http.Header{"Last-Modified": {text}})
		require.True(t, want.Equal(got), "%q: %v", text, got)
	}
	h := Condition(&frontier.Visit{ETag: `W/"x"`, LastModified: when.In(time.FixedZone("", 3600))})
	require.Equal(t, http.Header{"If-None-Match": {`W/"x"`}, "If-Modified-Since": {"Sun, 06 Nov 1994 08:49:37 GMT"}}, h)
	tag, modified := Validators(http.Header{"Etag": {"*"}, "Last-Modified": {"Sunday, 06-Nov-94 08:49:37 GMT"}})
	require.Empty(t, tag, "it stands for any version")
	h = make(http.Header)
	SetCondition(h, tag, modified)
	require.Equal(t, http.Header{"If-Modified-Since": {"Sunday, 06-Nov-94 08:49:37 GMT"}}, h, "as it came")
	require.Nil(t, Condition(nil))
	require.Nil(t, Condition(&frontier.Visit{Status: 200}))
}

func TestChange(t *testing.T) {
	visit := func(status int, d byte) *frontier.Visit {
		v := &frontier.Visit{Status: status}
		v.Digest[0] = d
		return v
	}
	for _, tc := range []struct {
		before *frontier.Visit
		status int
		digest byte
		want   frontier.Change
	}{
		{nil, 200, 1, frontier.Appeared},
		{nil, 404, 0, ""},
		{nil, 500, 0, ""},
		{visit(0, 0), 404, 0, ""}, // a row that is not there any more
		{visit(0, 0), 200, 1, frontier.Appeared},
		{visit(200, 1), 200, 1, frontier.Unchanged},
		{visit(200, 1), 200, 2, frontier.Changed},
		{visit(304, 1), 200, 2, frontier.Changed},
		{visit(200, 1), 301, 2, frontier.Changed},
		{visit(200, 0), 200, 1, ""}, // of an older program
		{visit(200, 1), 410, 0, frontier.Gone},
		{visit(301, 1), 404, 0, frontier.Gone},
		{visit(404, 0), 410, 0, frontier.Unchanged},
		{visit(410, 0), 200, 1, frontier.Appeared},
		{visit(200, 1), 503, 0, ""},
		{visit(200, 1), 200, 0, ""}, // not whole
	} {
		v := new(frontier.Visit)
		v.Digest[0] = tc.digest
		require.Equal(t, tc.want, Change(v, tc.before, tc.status), "%+v", tc)
	}
}
