package pipeline

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// What is left out of the records is followed and counted all the same.
func TestOmitted(t *testing.T) {
	for name, omit := range map[string]bool{"whole records": false, "short ones": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := fetchtest.Serve(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					html(w, links(3))
				})})
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
				w.OmitLinks, w.OmitDigest = omit, omit
				_, err := w.crawl(t, "http://h.test/")
				require.NoError(t, err)
				records := w.out.byURL(t)
				require.Len(t, records, 4)
				for u, rec := range records {
					require.Equal(t, omit, rec.Digest == "", u)
					require.Equal(t, omit, rec.Links == nil, u)
					require.Positive(t, rec.Bytes, u)
				}
			})
		})
	}
}
