package http1

import (
	"bufio"
	"bytes"
	"slices"
)

// maxExpected bounds the memory that is allocated for an announced Content-Length.
const maxExpected = 1 << 20

// Recording is one exchange as sent and received, above TLS. A Recording with only Max set is ready for one [Request].
// It belongs to the goroutine that reads the response, and is complete when the body has ended or is closed.
type Recording struct {
	Max     int64  // bounds Answer, in bytes, including Config.MaxHeaderBytes; zero records nothing of the response
	Request []byte // the whole request as sent, including credentials
	// Answer is the final response, with the framing of chunks and the trailers.
	Answer  []byte
	Head    int  // length of the header in Answer, including the blank line
	Chunked bool // the body is framed in chunks
	Whole   bool // the whole response was read, even if not all of it is in Answer
	Cut     bool // the response is longer than Max

	past int64 // bytes beyond Max
}

func (r *Recording) read(p []byte) {
	room := max(r.Max-int64(len(r.Answer)), 0)
	kept := min(int64(len(p)), room)
	r.Answer = append(r.Answer, p[:kept]...)
	r.past += int64(len(p)) - kept
}

// used returns how many bytes of Answer were read from in, which reads ahead.
func (r *Recording) used(in *bufio.Reader) int {
	ahead := int64(in.Buffered()) - r.past
	return len(r.Answer) - int(max(ahead, 0))
}

// restart drops an informational response that was read from in completely.
func (r *Recording) restart(in *bufio.Reader) {
	if r.past > 0 { // the beginning of the final response was cut off
		r.Answer, r.Max = nil, 0
		return
	}
	r.Answer = slices.Delete(r.Answer, 0, r.used(in))
}

// headed notes that in was read to the end of the header.
func (r *Recording) headed(in *bufio.Reader, length int64, chunked bool) {
	r.Head, r.Chunked = r.used(in), chunked
	want := min(length, maxExpected, r.Max-int64(len(r.Answer)))
	if more := int(want) - (len(r.Answer) - r.Head); more > 0 {
		r.Answer = slices.Grow(r.Answer, more)
	}
}

// end removes from Answer what in has read ahead.
func (r *Recording) end(in *bufio.Reader) {
	r.Cut = r.past > int64(in.Buffered())
	r.Answer = r.Answer[:r.used(in)]
}

func (r *Recording) asked(text []byte) { r.Request = bytes.Clone(text) }
