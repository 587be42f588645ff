package sink

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/record"
)

func TestRecent(t *testing.T) {
	var p Recent
	p.Note(&record.Record{URL: "http://a.test/early", Status: 200})
	require.Empty(t, p.Last().Pages, "nobody had asked")
	for i := range 100 {
		p.Note(&record.Record{URL: fmt.Sprint("http://a.test/", i), Status: 200, Title: strings.Repeat("é", 1000)})
		p.Note(&record.Record{URL: fmt.Sprint("http://a.test/missing", i), Status: 404})
	}
	p.Note(&record.Record{URL: "http://a.test/x", Error: &record.Error{Class: "network", Message: "reset\xff"}})
	p.Note(&record.Record{URL: "http://a.test/y", Status: 200, Error: &record.Error{Class: outcome.Filtered.String()}})
	r := p.Last()
	require.Len(t, r.Pages, recentPages)
	require.Len(t, r.Errors, recentErrors)
	require.Equal(t, "http://a.test/99", r.Pages[0].URL)
	require.Equal(t, "http://a.test/80", r.Pages[recentPages-1].URL)
	require.Equal(t, strings.Repeat("é", seenText/2)+"…", r.Pages[0].Title)
	require.Equal(t, []string{"network", "status"}, []string{r.Errors[0].Class, r.Errors[1].Class})
	require.Equal(t, "Not Found", r.Errors[1].Error)
}
