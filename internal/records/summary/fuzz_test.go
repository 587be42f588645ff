package summary

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever stands in a file, a summary of it can be told in every form.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"url":"http://a.test/","kind":"page","status":301,"redirect_to":"http://a.test/","links":["http://a.test/"],"timings_ms":{"total":1e308}}` + "\n"))
	f.Add([]byte(`{"url":"\u0000","kind":"sitemap","bytes":-1,"sitemap":{"problems":-3,"problem":"x"},"error":{"class":""}}` + "\n{"))
	f.Add([]byte("url,kind,status,total_ms,bytes,fetched_at\nhttp://a.test/,page,404,NaN,Inf,2026-01-02T03:04:05Z\n\"a"))
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Read(t.Context(), path, Config{List: 3, MaxHosts: 2, MaxBroken: 2, MaxRedirects: 2, MaxDigests: 2})
		if err != nil {
			return
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
		var b strings.Builder
		if err := s.WriteHTML(&b); err != nil {
			t.Error(err)
		}
	})
}
