package http1

import (
	"bufio"
	"bytes"
	"slices"
)

// maxExpected bounds the memory taken by an announced Content-Length.
const maxExpected = 1 << 20

// Recording is one exchange on the wire, above TLS. The zero Recording with a Max is ready for one [Request]. It
// belongs to the goroutine that reads the answer, and is complete at the end or close of the body.
type Recording struct {
	Max     int64  // bytes of Answer, with room for Config.MaxHeaderBytes; zero records nothing of it
	Request []byte // what was sent, whole: credentials too
	// Answer is the final answer, with the framing of chunks and the trailers.
	Answer  []byte
	Head    int  // length of the header in Answer, with the blank line
	Chunked bool // what follows the header is framed in chunks
	Whole   bool // all of the answer was read, be it in Answer or not
	Cut     bool // the answer went on beyond Max

	past int64 // bytes beyond Max
}

func (r *Recording) read(p []byte) {
	room := max(r.Max-int64(len(r.Answer)), 0)
	kept := min(int64(len(p)), room)
	r.Answer = append(r.Answer, p[:kept]...)
	r.past += int64(len(p)) - kept
}

// used is how much of what came has been read from in, which reads ahead.
func (r *Recording) used(in *bufio.Reader) int {
	ahead := int64(in.Buffered()) - r.past
	return len(r.Answer) - int(max(ahead, 0))
}

// restart forgets an informational answer that in has just been read to the end of.
func (r *Recording) restart(in *bufio.Reader) {
	if r.past > 0 { // of what comes now the beginning is missing
		r.Answer, r.Max = nil, 0
		return
	}
	r.Answer = slices.Delete(r.Answer, 0, r.used(in))
}

// headed notes that in has been read to the end of the header.
func (r *Recording) headed(in *bufio.Reader, length int64, chunked bool) {
	r.Head, r.Chunked = r.used(in), chunked
	want := min(length, maxExpected, r.Max-int64(len(r.Answer)))
	if more := int(want) - (len(r.Answer) - r.Head); more > 0 {
		r.Answer = slices.Grow(r.Answer, more)
	}
}

// end takes away what in has read ahead.
func (r *Recording) end(in *bufio.Reader) {
	r.Cut = r.past > int64(in.Buffered())
	r.Answer = r.Answer[:r.used(in)]
}

func (r *Recording) asked(text []byte) { r.Request = bytes.Clone(text) }
