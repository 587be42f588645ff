package warc

import (
	"bytes"

	"github.com/treadlight/crawl/internal/fetch/redact"
)

// veil is the header of a request without what would open something: archives are handed
// on, and a session or a password in them would be, too. That a field was sent is still to
// be seen, its value is [redact.Mask]. A request with nothing of that kind is returned as
// it is, any other is copied.
func veil(request []byte, by *redact.Redactor) []byte {
	var shown []byte
	kept := 0 // bytes of the request that are in shown
	for at := 0; at < len(request); {
		n := bytes.IndexByte(request[at:], '\n')
		if n <= 1 { // the empty line, or none any more
			break
		}
		line := request[at : at+n]
		name, _, ok := bytes.Cut(line, []byte(":"))
		if ok && at > 0 && by.SecretHeader(string(name)) {
			shown = append(append(append(shown, request[kept:at]...), name...), ": "+redact.Mask...)
			kept = at + len(bytes.TrimRight(line, "\r"))
		}
		at += n + 1
	}
	if shown == nil {
		return request
	}
	return append(shown, request[kept:]...)
}
