package sink

import (
	"crypto/sha256"
	"encoding/hex"
)

// ID is the name of a record among all of a job: the first 16 bytes, in hex digits, of the
// SHA-256 of the job's name, the kind and the canonical URL, with a zero byte behind each of the
// first two. So whoever fetches the URL, and however often, it is the same, and whoever stores
// records by it has each URL once. It may be computed by others, and is no secret.
func ID(job, kind, url string) string {
	buf := make([]byte, 0, 256) // of the usual lengths all stays on the stack
	buf = append(append(buf, job...), 0)
	buf = append(append(buf, kind...), 0)
	sum := sha256.Sum256(append(buf, url...))
	var text [32]byte
	hex.Encode(text[:], sum[:16])
	return string(text[:])
}
