package testsite

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// writes notes how long each write was.
type writes struct {
	http.ResponseWriter
	sizes []int
}

func (w *writes) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	return w.ResponseWriter.Write(p)
}

// A body that is larger than the buffers of net/http leaves while its handler still runs, and a crawl
// whose last page it is may be over before the handler has counted it.
func TestLastByteLeavesAlone(t *testing.T) {
	r := newRig(t, one(Host{Pages: 3, Size: Size{Min: 20_000, Max: 30_000}}))
	for _, path := range []string{"/", "/p/1", "/p/2", "/nothing"} {
		w := &writes{ResponseWriter: httptest.NewRecorder()}
		r.site.Handler(0).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		require.Len(t, w.sizes, 2, path)
		require.Equal(t, 1, w.sizes[1], path)
	}
	require.Equal(t, int64(3), r.report().Distinct)
}
