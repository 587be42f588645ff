package warc

import (
	"fmt"
	"strings"
	"testing"
)

// What a page of 8 KB costs the one goroutine that writes.
func BenchmarkWrite(b *testing.B) {
	w, err := Open(b.TempDir(), Config{})
	if err != nil {
		b.Fatal(err)
	}
	words := strings.Fields("jacket forest letter above paper kettle bread empty house journey pencil copper garden iron lamp water table island quiet apple")
	var body strings.Builder
	for i := 0; body.Len() < 8<<10; i++ {
		body.WriteString(words[i*i%len(words)] + " " + fmt.Sprint(i%13) + " ")
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := w.Write(answered("http://a.test/page", fmt.Sprint(body.String(), i))); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
